//! Host A: the fused router
