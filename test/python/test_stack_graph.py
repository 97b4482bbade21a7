"""The benchmark's stacked graph is a model: every value defined once, before
its use, and every copy's layers in it."""

import pathlib
import sys

TEST = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TEST / "bench"))

import onnx  # noqa: E402
import stack_graph  # noqa: E402


def test_stacked_graph_is_well_formed():
    model = onnx.load(
        TEST / "models/glm4_moe_dynamo_bf16.onnx", load_external_data=False
    )
    stacked = stack_graph.stack(model, 3).graph
    defined = {value.name for value in stacked.input}
    defined |= {tensor.name for tensor in stacked.initializer} | {""}
    for node in stacked.node:
        assert set(node.input) <= defined, node.name
        assert not (set(node.output) - {""}) & defined, node.name
        defined |= set(node.output)
    assert {value.name for value in stacked.output} <= defined

    def count(graph, kind):
        return sum(node.op_type == kind for node in graph.node)

    assert count(stacked, "AllReduce") == 3 * count(model.graph, "AllReduce")
    # In a row, not side by side: only the first copy embeds its tokens.
    begin, _ = stack_graph.hidden_state_ends(model.graph)
    producers = [n for n in stacked.node if any(o.startswith(begin + ".")
                                                for o in n.output)]
    assert len(producers) == 1
