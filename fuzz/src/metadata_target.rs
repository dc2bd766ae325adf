//! The metadata by which `nw cat` finds an object's version. Replayed by
//! `crates/app/tests/all/corpus.rs`.

use nw_app::object::version_in_metadata;
use nw_name::Name;

/// Reads the content of a metadata Data for `/f/ile`: an accepted name is below that one.
pub fn metadata(bytes: &[u8]) -> Result<(), &'static str> {
    let object: Name = "/f/ile".parse().expect("a name");
    match version_in_metadata(object.as_ref(), bytes) {
        Some(versioned) => {
            assert!(object.as_ref().is_prefix_of(versioned.as_ref()));
            Ok(())
        }
        None => Err("refused"),
    }
}
