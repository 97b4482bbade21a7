//===-- Device.cuh - Instructions that C++ has no words for -----*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// Memory that ranks exchange is only touched by the functions here: relaxed
// loads and stores of the whole system, which no L1 cache answers.

#ifndef TANDEM_RUNTIME_CUDA_DEVICE_CUH
#define TANDEM_RUNTIME_CUDA_DEVICE_CUH

#include <cstdint>

namespace tandem {
namespace cuda {

//===----------------------------------------------------------------------===//
// Exchanged memory
//===----------------------------------------------------------------------===//

__device__ __forceinline__ uint64_t loadWord(const void *from) {
  uint64_t value;
  asm volatile("ld.relaxed.sys.global.u64 %0, [%1];"
               : "=l"(value)
               : "l"(from)
               : "memory");
  return value;
}

/// What the storing rank wrote before its releaseFence is visible after this
/// has returned what that rank stored after it.
__device__ __forceinline__ uint64_t acquireWord(const void *from) {
  uint64_t value;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];"
               : "=l"(value)
               : "l"(from)
               : "memory");
  return value;
}

__device__ __forceinline__ void storeWord(void *to, uint64_t value) {
  asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(to), "l"(value)
               : "memory");
}

__device__ __forceinline__ void releaseFence() {
  asm volatile("fence.acq_rel.sys;" ::: "memory");
}

/// Sixteen bytes, as four words that may come apart.
__device__ __forceinline__ uint4 loadVector(const void *from) {
  uint4 v;
  asm volatile("ld.relaxed.sys.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(from)
               : "memory");
  return v;
}

__device__ __forceinline__ void storeVector(void *to, uint4 v) {
  asm volatile("st.relaxed.sys.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to),
               "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
               : "memory");
}

/// Sixteen bytes as the single access that PTX documents (b128).
__device__ __forceinline__ void loadElement(const void *from, uint64_t &data,
                                            uint64_t &flag) {
  asm volatile("{\n"
               ".reg .b128 e;\n"
               "ld.relaxed.sys.global.b128 e, [%2];\n"
               "mov.b128 {%0, %1}, e;\n"
               "}"
               : "=l"(data), "=l"(flag)
               : "l"(from)
               : "memory");
}

__device__ __forceinline__ void storeElement(void *to, uint64_t data,
                                             uint64_t flag) {
  asm volatile("{\n"
               ".reg .b128 e;\n"
               "mov.b128 e, {%1, %2};\n"
               "st.relaxed.sys.global.b128 [%0], e;\n"
               "}" ::"l"(to),
               "l"(data), "l"(flag)
               : "memory");
}

__device__ __forceinline__ uint64_t lowHalf(uint4 v) {
  return static_cast<uint64_t>(v.y) << 32 | v.x;
}
__device__ __forceinline__ uint64_t highHalf(uint4 v) {
  return static_cast<uint64_t>(v.w) << 32 | v.z;
}
__device__ __forceinline__ uint4 vectorOf(uint64_t low, uint64_t high) {
  return make_uint4(
      static_cast<uint32_t>(low), static_cast<uint32_t>(low >> 32),
      static_cast<uint32_t>(high), static_cast<uint32_t>(high >> 32));
}

//===----------------------------------------------------------------------===//
// Time, programmatic launches, barriers
//===----------------------------------------------------------------------===//

__device__ __forceinline__ uint64_t nanoseconds() {
  uint64_t t;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t)::"memory");
  return t;
}

/// Before it, a kernel may touch launch parameters and gammas only.
__device__ __forceinline__ void waitForPreviousKernel() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// After a block's last store.
__device__ __forceinline__ void letNextKernelStart() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/// A barrier among the first `threads` threads, not the block's own.
__device__ __forceinline__ void barrierOf(uint32_t threads) {
  asm volatile("bar.sync 1, %0;" ::"r"(threads) : "memory");
}

/// Tells one warp of the block, at barrier 2, without waiting for it.
__device__ __forceinline__ void arriveAtControl() {
  asm volatile("bar.arrive 2, %0;" ::"r"(blockDim.x) : "memory");
}
/// By that warp: waits for all others.
__device__ __forceinline__ void waitForArrivals() {
  asm volatile("bar.sync 2, %0;" ::"r"(blockDim.x) : "memory");
}

//===----------------------------------------------------------------------===//
// Barriers in shared memory
//===----------------------------------------------------------------------===//

__device__ __forceinline__ uint32_t sharedAddress(const void *p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

/// By one thread; the others may use it after a barrier of the block.
__device__ __forceinline__ void initBarrier(uint64_t *barrier,
                                            uint32_t arrivals = 1) {
  asm volatile(
      "mbarrier.init.shared.b64 [%0], %1;" ::"r"(sharedAddress(barrier)),
      "r"(arrivals)
      : "memory");
}

/// One of its arrivals: what this thread stored before is visible to those that
/// see the barrier's phase complete.
__device__ __forceinline__ void arriveAt(uint64_t *barrier) {
  asm volatile("{\n"
               ".reg .b64 state;\n"
               "mbarrier.arrive.shared.b64 state, [%0];\n"
               "}" ::"r"(sharedAddress(barrier))
               : "memory");
}

/// Whether the first phase is complete. Doesn't wait.
__device__ __forceinline__ bool haveAllArrived(uint64_t *barrier) {
  uint32_t done;
  asm volatile("{\n"
               ".reg .pred done;\n"
               "mbarrier.test_wait.parity.shared.b64 done, [%1], 0;\n"
               "selp.u32 %0, 1, 0, done;\n"
               "}"
               : "=r"(done)
               : "r"(sharedAddress(barrier))
               : "memory");
  return done != 0;
}

#if __CUDA_ARCH__ >= 900

//===----------------------------------------------------------------------===//
// Clusters
//===----------------------------------------------------------------------===//

/// This block's number in its cluster, and the cluster's in the grid.
__device__ __forceinline__ uint32_t blockInCluster() {
  uint32_t rank;
  asm volatile("mov.u32 %0, %cluster_ctarank;" : "=r"(rank));
  return rank;
}
__device__ __forceinline__ uint32_t clusterInGrid() {
  uint32_t cluster;
  asm volatile("mov.u32 %0, %clusterid.x;" : "=r"(cluster));
  return cluster;
}

/// Makes initialised barriers known to the cluster; by the thread that did it,
/// before it arrives.
__device__ __forceinline__ void fenceToCluster() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
/// A barrier of all threads of the cluster, in two halves. What was stored
/// before isn't released but for what fenceToCluster is for; the wait empties
/// the L1 cache.
__device__ __forceinline__ void arriveAtCluster() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
__device__ __forceinline__ void waitForCluster() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/// The only arrival at a barrier: its phase is complete when `bytes` have been
/// stored by storeShared.
__device__ __forceinline__ void expectBytes(uint64_t *barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(
                   sharedAddress(barrier)),
               "r"(bytes)
               : "memory");
}
/// Stores to what is `to` in block `block` of the cluster, and counts that at
/// what is `barrier` there.
__device__ __forceinline__ void storeShared(float *to, float value,
                                            uint64_t *barrier, uint32_t block) {
  asm volatile("{\n"
               ".reg .u32 to, barrier;\n"
               "mapa.shared::cluster.u32 to, %0, %3;\n"
               "mapa.shared::cluster.u32 barrier, %2, %3;\n"
               "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 "
               "[to], %1, [barrier];\n"
               "}" ::"r"(sharedAddress(to)),
               "r"(__float_as_uint(value)), "r"(sharedAddress(barrier)),
               "r"(block)
               : "memory");
}
/// Waits for the first phase, and for what was stored in it.
__device__ __forceinline__ void waitForBytes(uint64_t *barrier) {
  asm volatile("{\n"
               ".reg .pred done;\n"
               "again:\n"
               "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0;\n"
               "@!done bra again;\n"
               "}" ::"r"(sharedAddress(barrier))
               : "memory");
}

//===----------------------------------------------------------------------===//
// Bulk copies
//===----------------------------------------------------------------------===//

/// Orders what this thread saw through ordinary accesses before its bulk
/// copies.
__device__ __forceinline__ void fenceToBulk() {
  asm volatile("fence.proxy.async;" ::: "memory");
}

__device__ __forceinline__ void bulkLoad(void *to, const void *from,
                                         uint32_t bytes, uint64_t *barrier) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(
                   sharedAddress(barrier)),
               "r"(bytes)
               : "memory");
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::"
               "bytes [%0], [%1], %2, [%3];" ::"r"(sharedAddress(to)),
               "l"(from), "r"(bytes), "r"(sharedAddress(barrier))
               : "memory");
}

__device__ __forceinline__ void waitForBulkLoad(uint64_t *barrier,
                                                uint32_t parity) {
  asm volatile("{\n"
               ".reg .pred done;\n"
               "again:\n"
               "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
               "@!done bra again;\n"
               "}" ::"r"(sharedAddress(barrier)),
               "r"(parity)
               : "memory");
}

__device__ __forceinline__ void bulkStore(void *to, const void *from,
                                          uint32_t bytes) {
  asm volatile(
      "cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to),
      "r"(sharedAddress(from)), "r"(bytes)
      : "memory");
}
__device__ __forceinline__ void commitBulk() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
/// All but the last `n` groups have read their sources.
template <int n>
__device__ __forceinline__ void waitForBulkReads() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(n) : "memory");
}
/// All but the last `n` groups are stored.
template <int n>
__device__ __forceinline__ void waitForBulkStores() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(n) : "memory");
}
#endif

} // namespace cuda
} // namespace tandem

#endif
