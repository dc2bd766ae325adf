//! The topology function: from link state and memberships to deliveries.
