//! What applications link: consumer, producer, segmented fetch and publish
