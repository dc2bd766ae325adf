//! The wanted network: a graph file that has been checked, with its name and text.

use crate::target::digest;
use nw_graph_language::{GraphFile, Problems};

/// A checked graph file and the name of the network it describes.
#[derive(Clone, Debug)]
pub struct Document {
    /// Name of the network: letters, digits, `-` and `_`.
    pub name: String,
    /// Text, as written.
    pub text: String,
    /// Graph and network part; checked.
    pub file: GraphFile,
}

impl Document {
    /// Parses and checks the text of a graph file. `file_name` is used in messages.
    ///
    /// # Errors
    /// All problems found, with positions and remedies.
    pub fn read(name: &str, file_name: &str, text: &str) -> Result<Document, Problems> {
        let file = GraphFile::read(file_name, text)?;
        Ok(Document { name: name.to_owned(), text: text.to_owned(), file })
    }

    /// Returns a digest of the text, 16 hexadecimal digits.
    pub fn digest(&self) -> String {
        digest(&[&self.name, &self.text])
    }
}
