//! A draft as text and drawing: edits, places, mistakes. Nothing here concerns what runs.

use crate::run::{CommandError, DOCUMENT_BYTES_MAX};
use nw_api::draft::{
    CatalogueElement, DraftEdit, DraftProblem, Drawing, DrawingRequest, DrawnBox, DrawnLink,
    DrawnService,
};
use nw_graph_language::draw::{PlacedBox, PlacedLink, ends, places};
use nw_graph_language::language::{Edit, edit};
use nw_graph_language::{GraphFile, Problem};

/// Makes an edit and returns the text as a drawing.
///
/// # Errors
/// The text is too long, or the edit can't be made.
pub fn draw(request: DrawingRequest) -> Result<Drawing, CommandError> {
    if request.text.len() > DOCUMENT_BYTES_MAX {
        let text = format!("a document has at most {DOCUMENT_BYTES_MAX} bytes");
        return Err(CommandError::Wrong(text));
    }
    let text = match request.edit {
        None => request.text,
        Some(wanted) => edit(&request.text, &translate(wanted))
            .map_err(|error| CommandError::Wrong(error.to_string()))?,
    };
    let (file, problems) = GraphFile::examine(&text);
    let (boxes, links) = places(&file.graph);
    let (outputs, inputs) = ends(&file.graph);
    let services = file.network.services.iter().map(|service| DrawnService {
        name: service.name.clone(),
        members: service.members.iter().map(|(name, _)| name.clone()).collect(),
        line: service.position.line,
    });
    let services: Vec<DrawnService> = services.collect();
    let catalogue = nw_elements::catalogue::ENTRIES
        .iter()
        .map(|entry| CatalogueElement { name: entry.name.to_owned(), help: entry.contract().0 });
    Ok(Drawing {
        problems: problems.into_iter().map(shown_problem).collect(),
        boxes: boxes.into_iter().map(|placed| shown_box(placed, &services)).collect(),
        links: links.into_iter().map(shown_link).collect(),
        services,
        outputs,
        inputs,
        catalogue: catalogue.collect(),
        text,
    })
}

fn translate(edit: DraftEdit) -> Edit {
    match edit {
        DraftEdit::AddElement { name, element } => Edit::AddElement(name, element),
        DraftEdit::AddFace { name, uri, listens } => Edit::AddFace(name, uri, listens),
        DraftEdit::AddService { name, members } => Edit::AddService(name, members),
        DraftEdit::Connect { from, to } => Edit::Connect(from, to),
        DraftEdit::Disconnect { from, to } => Edit::Disconnect(from, to),
        DraftEdit::Assign { member, service } => Edit::Assign(member, service),
        DraftEdit::Remove { name } => Edit::Remove(name),
        DraftEdit::RemoveService { name } => Edit::RemoveService(name),
    }
}

fn shown_problem(problem: Problem) -> DraftProblem {
    DraftProblem {
        line: problem.position.line,
        column: problem.position.column,
        message: problem.message,
        remedy: problem.remedy,
    }
}

fn shown_box(placed: PlacedBox, services: &[DrawnService]) -> DrawnBox {
    let texts = |ports: &[&str]| ports.iter().map(|port| (*port).to_owned()).collect();
    let service = services.iter().find(|service| service.members.contains(&placed.name));
    DrawnBox {
        service: service.map(|service| service.name.clone()).unwrap_or_default(),
        inputs: texts(&placed.ins),
        outputs: texts(&placed.outs),
        name: placed.name,
        label: placed.label,
        is_face: placed.is_face,
        x: placed.x as u32,
        y: placed.y as u32,
        width: placed.width as u32,
        height: placed.height as u32,
        line: placed.position.line,
    }
}

fn shown_link(link: PlacedLink) -> DrawnLink {
    DrawnLink {
        from: link.from.0 as u32,
        from_port: link.from.1 as u32,
        to: link.to.0 as u32,
        to_port: link.to.1 as u32,
        source: link.source,
        target: link.target,
        line: link.position.line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edit_is_drawn_with_its_mistakes_at_their_lines() {
        let text = "face in listens unix:///tmp/a.sock\npd = packet_dispatcher\nin -> pd.packet\n";
        let edit = DraftEdit::AddElement { name: "cs".into(), element: "content_store".into() };
        let drawing = draw(DrawingRequest { text: text.into(), edit: Some(edit) }).unwrap();
        assert!(drawing.text.contains("pd = packet_dispatcher\ncs = content_store\n"));
        assert_eq!(drawing.boxes.len(), 3);
        assert_eq!(drawing.links[0].line, 4);
        assert!(!drawing.problems.is_empty(), "ports are not connected");
        assert!(drawing.problems.iter().any(|problem| problem.line == 2 || problem.line == 3));
        let nothing = DraftEdit::Remove { name: "no".into() };
        assert!(draw(DrawingRequest { text: text.into(), edit: Some(nothing) }).is_err());
    }
}
