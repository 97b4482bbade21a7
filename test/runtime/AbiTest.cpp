//===-- AbiTest.cpp - The binary interface of version 1 -------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Runtime/tandem.h"

#include <gtest/gtest.h>

#include <cstddef>

#if UINTPTR_MAX == UINT64_MAX
// Compiled code has these numbers in it. They change with the major version
// alone; a minor one appends.
TEST(Abi, LayoutsOfVersion1AreWhatTheyWere) {
  EXPECT_EQ(sizeof(tandem_error), 512u);
  EXPECT_EQ(offsetof(tandem_error, message), 32u);
  EXPECT_EQ(sizeof(tandem_context_desc), 64u);
  EXPECT_EQ(offsetof(tandem_context_desc, timeout_ms), 24u);
  EXPECT_EQ(sizeof(tandem_unique_id), 128u);
  EXPECT_EQ(sizeof(tandem_comm_desc), 88u);
  EXPECT_EQ(offsetof(tandem_comm_desc, name), 32u);
  EXPECT_EQ(offsetof(tandem_comm_desc, nccl_comm), 48u);
  EXPECT_EQ(sizeof(tandem_workspace_desc), 96u);
  EXPECT_EQ(offsetof(tandem_workspace_desc, token_limit), 32u);
  EXPECT_EQ(offsetof(tandem_workspace_desc, signature_length), 56u);
  EXPECT_EQ(sizeof(tandem_workspace_bytes), 32u);
  EXPECT_EQ(sizeof(tandem_workspace_info), 312u);
  EXPECT_EQ(offsetof(tandem_workspace_info, reason), 56u);
  EXPECT_EQ(sizeof(tandem_counters), 64u);
  EXPECT_EQ(sizeof(tandem_view), 16u);
  EXPECT_EQ(sizeof(tandem_norm_spec), 24u);
  EXPECT_EQ(offsetof(tandem_norm_spec, epsilon), 16u);
  EXPECT_EQ(sizeof(tandem_norm_args), 240u);
  EXPECT_EQ(offsetof(tandem_norm_args, dtype), 24u);
  EXPECT_EQ(offsetof(tandem_norm_args, stream), 32u);
  EXPECT_EQ(offsetof(tandem_norm_args, input), 40u);
  EXPECT_EQ(offsetof(tandem_norm_args, residual), 56u);
  EXPECT_EQ(offsetof(tandem_norm_args, bias), 72u);
  EXPECT_EQ(offsetof(tandem_norm_args, pre_norm), 80u);
  EXPECT_EQ(offsetof(tandem_norm_args, norm), 104u);
  EXPECT_EQ(offsetof(tandem_norm_args, norm_out), 128u);
  EXPECT_EQ(offsetof(tandem_norm_args, residual_out), 144u);
  EXPECT_EQ(offsetof(tandem_norm_args, sum_out), 160u);
  EXPECT_EQ(sizeof(tandem_all_reduce_args), 112u);
  EXPECT_EQ(offsetof(tandem_all_reduce_args, stream), 32u);
  EXPECT_EQ(offsetof(tandem_all_reduce_args, input), 40u);
  EXPECT_EQ(offsetof(tandem_all_reduce_args, output), 56u);
  EXPECT_EQ(offsetof(tandem_all_reduce_args, reduction), 72u);
}

TEST(Abi, NumbersOfVersion1AreWhatTheyWere) {
  EXPECT_EQ(TANDEM_STATUS_BUSY, 9);
  EXPECT_EQ(TANDEM_STATUS_INTERNAL, 10);
  EXPECT_EQ(TANDEM_DTYPE_BF16, 2);
  EXPECT_EQ(TANDEM_REDUCTION_PROD, 3);
  EXPECT_EQ(TANDEM_ROUNDING_AFTER_GAMMA, 1);
  EXPECT_EQ(TANDEM_DEVICE_CUDA, 1);
  EXPECT_EQ(TANDEM_COMM_NCCL, 2);
  EXPECT_EQ(TANDEM_WORKSPACE_BATCH_INVARIANT, 2u);
  EXPECT_EQ(TANDEM_CALL_FALLBACK, 1u);
  EXPECT_EQ(TANDEM_CALL_BATCH_INVARIANT, 2u);
}
#endif
