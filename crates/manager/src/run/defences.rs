//! Commands about countermeasures: what is in effect, removal, vetoes of persons.

use super::commands::{Author, Handle};
use super::{CommandError, DEFENCES_SETTING, Shared, locked};
use crate::events::About;
use nw_api::network::{NetworkCountermeasure, NetworkDefence, NetworkEventKind};
use nw_manage::defence::DefenceStatus;
use nw_manage::target::Countermeasure;

impl Handle {
    /// Returns the defences of the document, with what is in effect.
    pub fn defences(&self) -> Vec<NetworkDefence> {
        let document = self.shared.wanted().document.clone();
        let status = locked(&self.shared.defences).status(&document);
        status.into_iter().map(shown_defence).collect()
    }

    /// Removes the countermeasures for a watched element. Its defences learn anew what is usual.
    ///
    /// # Errors
    /// The element is not watched.
    pub fn remove_countermeasures(
        &self,
        element: &str,
        author: &Author,
    ) -> Result<(), CommandError> {
        let is_watched = self.defences().iter().any(|defence| defence.element == element);
        let result = match is_watched {
            true => Ok(()),
            false => Err(CommandError::Unknown(format!(
                "no defence of the document watches {element}: `nw network defence` lists all"
            ))),
        };
        self.audit(author, format!("remove countermeasures for {element}"), result)?;
        locked(&self.shared.defences).remove(element);
        self.shared.keep_defences();
        self.report(element, format!("countermeasures for {element} are removed by a person"));
        Ok(())
    }

    /// Forbids or allows countermeasures at an element.
    ///
    /// # Errors
    /// The document has no such element, or the store refuses.
    pub fn set_veto(
        &self,
        element: &str,
        is_forbidden: bool,
        author: &Author,
    ) -> Result<(), CommandError> {
        let known = self.shared.wanted().document.file.graph.node_index(element).is_some();
        let result = match known {
            false => Err(CommandError::Unknown(format!("the document has no element {element}"))),
            true => self.shared.store().set_veto(element, is_forbidden).map_err(Into::into),
        };
        let action = if is_forbidden { "forbid" } else { "allow" };
        self.audit(author, format!("{action} countermeasures at {element}"), result)?;
        locked(&self.shared.defences).set_veto(element, is_forbidden);
        self.shared.keep_defences();
        let who = if is_forbidden { "forbidden" } else { "allowed again" };
        self.report(element, format!("countermeasures at {element} are {who} by a person"));
        Ok(())
    }

    fn report(&self, element: &str, text: String) {
        let about = About { subject: Some(element.to_owned()), ..About::default() };
        self.shared.event(NetworkEventKind::Defence, text, about);
    }
}

impl Shared {
    /// Stores the states of all defences, so that the next process goes on with them.
    pub(super) fn keep_defences(&self) {
        let text = locked(&self.defences).export();
        if let Err(error) = self.store().set_setting(DEFENCES_SETTING, &text) {
            tracing::warn!("the next manager learns anew what is usual: {error}");
        }
    }
}

fn shown_defence(status: DefenceStatus) -> NetworkDefence {
    let state = serde_json::to_value(status.state).unwrap_or_default();
    NetworkDefence {
        element: status.element,
        attack: status.attack.name().to_owned(),
        state: state.as_str().unwrap_or_default().to_owned(),
        learning: status.is_learning,
        vetoed: status.is_vetoed,
        reason: Some(status.reason).filter(|reason| !reason.is_empty()),
        countermeasures: status.countermeasures.iter().map(shown_countermeasure).collect(),
    }
}

fn shown_countermeasure(made: &Countermeasure) -> NetworkCountermeasure {
    let (at, effect) = match made {
        Countermeasure::Verify { element, sample, .. } => {
            (element, format!("verifies {:.0} % of the Data", 100.0 * sample))
        }
        Countermeasure::Filter { element, names } => {
            (element, format!("rejects the Data of {} names", names.len()))
        }
        Countermeasure::Limit { element, rate } => {
            (element, format!("{rate} Interests/s by each face at most, less if unanswered"))
        }
    };
    NetworkCountermeasure { name: made.element_name(), at: at.clone(), effect }
}
