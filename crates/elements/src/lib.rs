//! The packet functions: one file each; forwarding strategies under strategy/
