//! A draft of a network's document as text and drawing: `POST /v1/drawing` of the manager. An edit
//! in the drawing is a change of the text; what it does not concern keeps its formatting.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `POST /v1/drawing`: a text, and an edit of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DrawingRequest {
    /// Text of a document, at most 1 MiB.
    pub text: String,
    /// Edit; absent: the text is drawn as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edit: Option<DraftEdit>,
}

/// An edit of a draft.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum DraftEdit {
    /// Add an element.
    AddElement {
        /// Name of the new element.
        name: String,
        /// Element of the catalogue.
        element: String,
    },
    /// Add a face.
    AddFace {
        /// Name of the new face.
        name: String,
        /// Address.
        uri: String,
        /// Whether it listens at the address.
        #[serde(default)]
        listens: bool,
    },
    /// Add a service with elements or faces, which leave the services they were in.
    AddService {
        /// Name of the new service.
        name: String,
        /// Elements and faces.
        members: Vec<String>,
    },
    /// Connect an output to an input.
    Connect {
        /// Output: `ELEMENT.PORT`, a face, or `faces`.
        from: String,
        /// Input: `ELEMENT.PORT`, a face, or `faces`.
        to: String,
    },
    /// Remove a connection.
    Disconnect {
        /// Output.
        from: String,
        /// Input.
        to: String,
    },
    /// Move an element or face to another service.
    Assign {
        /// Element or face.
        member: String,
        /// Service; absent: none.
        #[serde(default)]
        service: Option<String>,
    },
    /// Remove an element or a face, with its connections and routes.
    Remove {
        /// Element or face.
        name: String,
    },
    /// Remove a service; its members stay.
    RemoveService {
        /// Service.
        name: String,
    },
}

/// A text as a drawing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Drawing {
    /// The text after the edit.
    pub text: String,
    /// What is wrong with it, by position.
    pub problems: Vec<DraftProblem>,
    /// Elements and faces; empty if there are too many to draw.
    pub boxes: Vec<DrawnBox>,
    /// Connections.
    pub links: Vec<DrawnLink>,
    /// Services.
    pub services: Vec<DrawnService>,
    /// Outputs that a new connection may have.
    pub outputs: Vec<String>,
    /// Inputs that a new connection may have.
    pub inputs: Vec<String>,
    /// Elements that can be added.
    pub catalogue: Vec<CatalogueElement>,
}

/// A mistake in a draft.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DraftProblem {
    /// Line, from 1; 0 for the whole document.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub remedy: String,
}

/// An element or face of a drawing. Lengths are in characters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DrawnBox {
    /// Name; `faces` for all faces.
    pub name: String,
    /// Element of the catalogue, or address of the face.
    pub label: String,
    /// Whether it is a face.
    pub is_face: bool,
    /// Service that it belongs to; empty for none.
    pub service: String,
    /// Input ports.
    pub inputs: Vec<String>,
    /// Output ports.
    pub outputs: Vec<String>,
    /// Left edge.
    pub x: u32,
    /// Upper edge.
    pub y: u32,
    /// Width.
    pub width: u32,
    /// Height.
    pub height: u32,
    /// Line in the text, from 1; 0 if it has none.
    pub line: u32,
}

/// A connection of a drawing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DrawnLink {
    /// Index of the box where it begins.
    pub from: u32,
    /// Index of its output port.
    pub from_port: u32,
    /// Index of the box where it ends.
    pub to: u32,
    /// Index of its input port.
    pub to_port: u32,
    /// Output as written in a document.
    pub source: String,
    /// Input as written in a document.
    pub target: String,
    /// Line in the text, from 1.
    pub line: u32,
}

/// A service of a drawing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DrawnService {
    /// Name.
    pub name: String,
    /// Elements and faces.
    pub members: Vec<String>,
    /// Line in the text, from 1.
    pub line: u32,
}

/// An element that can be added.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CatalogueElement {
    /// Name in documents.
    pub name: String,
    /// What it does.
    pub help: String,
}
