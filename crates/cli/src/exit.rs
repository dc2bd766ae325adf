//! How a command ends: one table of exit statuses, for the program, its help, its manual pages and `docs/reference/commands.md`.

use anyhow::Error;
use nw_app::ClientError;
use nw_app::control::ControlError;
use nw_app::fetch::FetchError;
use nw_app::keystore::KeyStoreError;
use nw_app::object::ObjectError;
use nw_app::packet::PacketError;
use std::fmt;
use std::process::ExitCode;

/// Exit statuses. Scripts depend on the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Status {
    Done = 0,
    Failed = 1,
    Usage = 2,
    NotFound = 3,
    Unreachable = 4,
    TimedOut = 5,
    Refused = 6,
    Nack = 7,
    Unverified = 8,
    Interrupted = 130,
}

impl Status {
    pub const ALL: [Status; 10] = [
        Status::Done,
        Status::Failed,
        Status::Usage,
        Status::NotFound,
        Status::Unreachable,
        Status::TimedOut,
        Status::Refused,
        Status::Nack,
        Status::Unverified,
        Status::Interrupted,
    ];

    /// In a word or two.
    pub const fn word(self) -> &'static str {
        match self {
            Status::Done => "done",
            Status::Failed => "failed",
            Status::Usage => "usage",
            Status::NotFound => "not found",
            Status::Unreachable => "no router",
            Status::TimedOut => "no answer",
            Status::Refused => "refused",
            Status::Nack => "Nack",
            Status::Unverified => "not verified",
            Status::Interrupted => "interrupted",
        }
    }

    /// What it means.
    pub const fn meaning(self) -> &'static str {
        match self {
            Status::Done => "done",
            Status::Failed => "failed for another reason, or a check found a fault",
            Status::Usage => "the command line is wrong",
            Status::NotFound => {
                "what the command is about is not there: a face, a route, a strategy, a member"
            }
            Status::Unreachable => "no router, service or balancer can be reached",
            Status::TimedOut => "no answer in time",
            Status::Refused => "the router, service or balancer refused the command",
            Status::Nack => "the Interest was answered by a Nack",
            Status::Unverified => {
                "Data came that is not accepted: a wrong digest or signature, or a signer that is not trusted"
            }
            Status::Interrupted => "ended by Ctrl-C or SIGTERM before it was done",
        }
    }
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> Self {
        ExitCode::from(status as u8)
    }
}

/// A sentence, and the status that the command ends with. As an error or as the context of one.
#[derive(Debug)]
pub struct Failure {
    status: Status,
    text: String,
}

impl Failure {
    pub fn new(status: Status, text: impl Into<String>) -> Self {
        Failure { status, text: text.into() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Failure {}

/// An error about something that is not there.
pub fn not_found(text: impl Into<String>) -> Error {
    Failure::new(Status::NotFound, text).into()
}

/// The status of an error.
pub fn status(error: &Error) -> Status {
    if let Some(failure) = error.downcast_ref::<Failure>() {
        return failure.status;
    }
    if let Some(error) = error.downcast_ref::<ControlError>() {
        return of_control(error);
    }
    if let Some(error) = error.downcast_ref::<ObjectError>() {
        return of_object(error);
    }
    if let Some(error) = error.downcast_ref::<PacketError>() {
        return of_packet(error);
    }
    if let Some(KeyStoreError::NoStore(_) | KeyStoreError::NoKey(_) | KeyStoreError::NoCertificate(_)) =
        error.downcast_ref()
    {
        return Status::NotFound;
    }
    error.downcast_ref::<ClientError>().map_or(Status::Failed, of_client)
}

fn of_control(error: &ControlError) -> Status {
    match error {
        ControlError::Client(error) => of_client(error),
        ControlError::Refused { response, .. } if matches!(response.code, 404 | 410) => Status::NotFound,
        ControlError::Refused { .. } | ControlError::DatasetRefused { .. } => Status::Refused,
        ControlError::Silence(_) => Status::TimedOut,
        ControlError::Nack { .. } => Status::Nack,
        _ => Status::Failed,
    }
}

fn of_object(error: &ObjectError) -> Status {
    match error {
        ObjectError::Client(error) => of_client(error),
        ObjectError::Fetch { error: FetchError::NoAnswer { .. }, .. } | ObjectError::NoMetadata(_) => {
            Status::TimedOut
        }
        ObjectError::Fetch { error: FetchError::Refused { .. }, .. }
        | ObjectError::MetadataRefused { .. } => Status::Nack,
        ObjectError::Invalid { .. } => Status::Unverified,
        ObjectError::ApplicationNack(_) => Status::NotFound,
        ObjectError::Lost(_) => Status::Unreachable,
        _ => Status::Failed,
    }
}

fn of_packet(error: &PacketError) -> Status {
    match error {
        PacketError::Client(error) => of_client(error),
        PacketError::Nack { .. } => Status::Nack,
        PacketError::Silence { .. } => Status::TimedOut,
        PacketError::Invalid { .. } => Status::Unverified,
    }
}

fn of_client(error: &ClientError) -> Status {
    match error {
        ClientError::Closed(_) => Status::Unreachable,
        ClientError::ConnectTimeout(..) => Status::Unreachable,
        ClientError::Interrupted => Status::Interrupted,
        _ => Status::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn status_of_failure_is_found_below_and_above_other_context() {
        assert_eq!(status(&not_found("no face 7").context("while listing")), Status::NotFound);
        let refused: Result<(), Error> = Err(Error::msg("connection refused"))
            .context(Failure::new(Status::Unreachable, "can't reach a router"));
        assert_eq!(status(&refused.unwrap_err()), Status::Unreachable);
        assert_eq!(status(&Error::msg("?")), Status::Failed);
        let silence = ControlError::Silence("faces/list".into());
        assert_eq!(status(&Error::from(silence).context("faces")), Status::TimedOut);
    }

    #[test]
    fn statuses_are_distinct() {
        for (at, one) in Status::ALL.iter().enumerate() {
            assert!(Status::ALL[..at].iter().all(|other| *other as u8 != *one as u8));
        }
    }
}
