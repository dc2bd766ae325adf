//! The control vocabulary: NFD management messages, configuration, counters' names
