//! Transports, listeners and the link service
