// The report: a file, or standard output for "-"; written also where the pass
// fails because of require=all. docs/report.md describes it.
//
// RUN: fusion-opt %s --tandem-fuse='world-size=2 max-tokens=64 report=%t.json' -o /dev/null
// RUN: FileCheck %s --match-full-lines --strict-whitespace < %t.json
// RUN: fusion-opt %s --tandem-fuse='world-size=2 max-tokens=64 report=-' -o /dev/null > %t.stdout
// RUN: cmp %t.json %t.stdout
// RUN: %python -c "import json, sys; json.load(open(sys.argv[1]))" %t.json
//
// RUN: rm -f %t.failed.json
// RUN: not fusion-opt %s --tandem-fuse='world-size=2 max-tokens=64 report=%t.failed.json require=all' -o %t.out 2>&1 \
// RUN:   | FileCheck %s --check-prefix=REQUIRE
// RUN: cmp %t.json %t.failed.json
// REQUIRE: error: tandem-fuse: require=all: 1 of 3 all-reduces did not fuse; "lm_head \ "sum"" at model.onnx:9:1: NoNormConsumer{{$}}
//
// Where all fuse, require=all is content; and where there is none.
// RUN: fusion-opt %S/patterns.mlir --tandem-fuse='require=all' -o /dev/null
// RUN: echo "module {}" | fusion-opt --tandem-fuse='require=all report=-' -o /dev/null | FileCheck %s --check-prefix=EMPTY
// EMPTY: "summary": {
// EMPTY-NEXT: "all_reduces": 0,
// EMPTY-NEXT: "fused": 0,
// EMPTY-NEXT: "guarded": 0,
// EMPTY-NEXT: "missed": 0
// EMPTY-NEXT: },
// EMPTY-NEXT: "sites": []
//
// A file that can't be written is an error, whether opening or writing fails.
// RUN: not fusion-opt %s --tandem-fuse='report=%t.none/r.json' -o %t.out 2>&1 | FileCheck %s --check-prefix=OPEN
// OPEN: error: tandem-fuse: report: cannot open output file '{{.*}}.none/r.json': No such file or directory
// RUN: not fusion-opt %s --tandem-fuse='report=/dev/full' -o %t.out 2>&1 | FileCheck %s --check-prefix=WRITE
// WRITE: error: tandem-fuse: report: '/dev/full': No space left on device
//
// The pipeline writes the same.
// RUN: fusion-opt %s --tandem-fuse-pipeline='world-size=2 max-tokens=64 report=%t.pipeline.json' -o /dev/null
// RUN: cmp %t.json %t.pipeline.json

//      CHECK:{
// CHECK-NEXT:  "version": 1,
// CHECK-NEXT:  "model": "{{.*}}report.mlir",
// CHECK-NEXT:  "summary": {
// CHECK-NEXT:    "all_reduces": 3,
// CHECK-NEXT:    "fused": 2,
// CHECK-NEXT:    "guarded": 1,
// CHECK-NEXT:    "missed": 1
// CHECK-NEXT:  },
// CHECK-NEXT:  "sites": [
// CHECK-NEXT:    {
// CHECK-NEXT:      "function": "main",
// CHECK-NEXT:      "location": "\"/layers.0/o_proj\" at model.onnx:3:1",
// CHECK-NEXT:      "status": "fused",
// CHECK-NEXT:      "pattern": "all_reduce_add_rms_norm",
// CHECK-NEXT:      "guard": "tokens <= 64",
// CHECK-NEXT:      "group": "tp",
// CHECK-NEXT:      "hidden": 8,
// CHECK-NEXT:      "dtype": "bf16",
// CHECK-NEXT:      "world_size": 4
// CHECK-NEXT:    },
// CHECK-NEXT:    {
// CHECK-NEXT:      "function": "main",
// CHECK-NEXT:      "location": "model.onnx:6:1",
// CHECK-NEXT:      "status": "fused",
// CHECK-NEXT:      "pattern": "all_reduce_rms_norm",
// CHECK-NEXT:      "guard": null,
// CHECK-NEXT:      "group": "world",
// CHECK-NEXT:      "hidden": 4,
// CHECK-NEXT:      "dtype": "f32",
// CHECK-NEXT:      "world_size": 2
// CHECK-NEXT:    },
// CHECK-NEXT:    {
// CHECK-NEXT:      "function": "main",
// CHECK-NEXT:      "location": "\"lm_head \\ \"sum\"\" at model.onnx:9:1",
// CHECK-NEXT:      "status": "missed",
// CHECK-NEXT:      "reason": "NoNormConsumer",
// CHECK-NEXT:      "message": "no RMSNorm follows the all-reduce",
// CHECK-NEXT:      "blocked_by": "func.return at unknown",
// CHECK-NEXT:      "suggestion": "nothing, unless an RMSNorm is meant to follow: then compare its form with docs/raise.md",
// CHECK-NEXT:      "group": "world",
// CHECK-NEXT:      "hidden": null,
// CHECK-NEXT:      "dtype": "f32",
// CHECK-NEXT:      "world_size": 2
// CHECK-NEXT:    }
// CHECK-NEXT:  ]
// CHECK-NEXT:}
func.func @main(%x: tensor<?x8xbf16>, %g: tensor<8xbf16>, %z: tensor<4x4xf32>, %h: tensor<4xf32>, %l: tensor<?x?xf32>) -> (tensor<?x8xbf16>, tensor<4x4xf32>, tensor<?x?xf32>) {
  %s = tandem.all_reduce %x {group = #tandem.group<"tp", size = 4>} : tensor<?x8xbf16> loc("/layers.0/o_proj"("model.onnx":3:1))
  %a = tandem.add %s, %x : tensor<?x8xbf16>
  %y = tandem.rms_norm %a, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xbf16>, tensor<8xbf16>
  %t = tandem.all_reduce %z : tensor<4x4xf32> loc("model.onnx":6:1)
  %u = tandem.rms_norm %t, %h {epsilon = 1.0e-5 : f64} : tensor<4x4xf32>, tensor<4xf32>
  %v = tandem.all_reduce %l : tensor<?x?xf32> loc("lm_head \\ \22sum\22"("model.onnx":9:1))
  return %y, %u, %v : tensor<?x8xbf16>, tensor<4x4xf32>, tensor<?x?xf32> loc(unknown)
}
