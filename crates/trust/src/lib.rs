//! Keys, signing, verification and certificates
