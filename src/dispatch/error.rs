//! What handlers fail with.

use std::borrow::Cow;
use std::fmt;

use crate::body::BoxError;
use crate::message::ErrorObject;
use crate::protocol::code;
use crate::rejection::Rejection;

/// What a handler fails with.
///
/// Any error type turns into one with `?` (boxed errors with [`internal`](Self::internal)), and is then logged but not
/// shown to the caller, who learns only that something failed. What the caller, or the model behind it, is meant to read
/// is said with [`visible`](Self::visible).
///
/// A [`Rejection`] keeps its code and status, also through `?`.
///
/// ```
/// use mcp_layers::dispatch::HandlerError;
///
/// fn parse(number: &str) -> Result<i32, HandlerError> {
///     if number.is_empty() {
///         return Err(HandlerError::visible("say which number"));
///     }
///     Ok(number.parse::<i32>()?)
/// }
/// assert!(parse("").is_err_and(|error| error.to_string().contains("say which number")));
/// assert!(parse("x").is_err());
/// ```
#[derive(Debug)]
pub struct HandlerError(Kind);

#[derive(Debug)]
enum Kind {
    Visible(Cow<'static, str>),
    Rejected(Rejection),
    Error(ErrorObject),
    Internal(BoxError),
}

impl HandlerError {
    /// A failure whose text the caller is meant to read.
    ///
    /// Of a tool it becomes a result with `isError`, which the model sees and can act on; elsewhere it becomes the
    /// message of a JSON-RPC error.
    #[must_use]
    pub fn visible(text: impl Into<Cow<'static, str>>) -> Self {
        Self(Kind::Visible(text.into()))
    }

    /// The parameters are wrong in a way that only the handler can tell: HTTP 400, -32602.
    #[must_use]
    pub fn invalid_params(text: impl Into<Cow<'static, str>>) -> Self {
        Self(Kind::Rejected(Rejection::invalid_params(text)))
    }

    /// A failure that is logged and not shown, for errors that `?` does not take, such as boxed ones.
    #[must_use]
    pub fn internal(error: impl Into<BoxError>) -> Self {
        Self(Kind::Internal(error.into()))
    }

    /// How a tool's failure is shown: as text in a result, or else as an error of the protocol.
    pub(super) fn into_tool_failure(self, tool: &str) -> Result<Cow<'static, str>, Failure> {
        match self.0 {
            Kind::Visible(text) => Ok(text),
            Kind::Rejected(rejection) => Err(Failure::Rejected(rejection)),
            Kind::Error(error) => Err(Failure::Error(permitted(error))),
            Kind::Internal(error) => {
                tracing::error!(tool, error, "a tool failed");
                Ok(format!("tool `{tool}` failed").into())
            }
        }
    }

    /// How the failure of a prompt or resource is shown.
    pub(super) fn into_failure(self, method: &str) -> Failure {
        match self.0 {
            Kind::Visible(text) => Failure::Error(ErrorObject::new(code::INTERNAL_ERROR, text)),
            Kind::Rejected(rejection) => Failure::Rejected(rejection),
            Kind::Error(error) => Failure::Error(permitted(error)),
            Kind::Internal(error) => {
                tracing::error!(method, error, "a handler failed");
                Failure::internal()
            }
        }
    }
}

impl<E: std::error::Error + Send + Sync + 'static> From<E> for HandlerError {
    fn from(error: E) -> Self {
        let error: BoxError = Box::new(error);
        match error.downcast::<Rejection>() {
            Ok(rejection) => Self(Kind::Rejected(*rejection)),
            Err(error) => Self(Kind::Internal(error)),
        }
    }
}

/// A JSON-RPC error with HTTP status 200. Its code should be one of JSON-RPC's, or one outside -32768 to -32000, which
/// is free for applications; codes from -32099 to -32000 are replaced, because they are reserved. Errors that the
/// specification defines are made with [`Rejection`].
impl From<ErrorObject> for HandlerError {
    fn from(error: ErrorObject) -> Self {
        Self(Kind::Error(error))
    }
}

impl fmt::Display for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Visible(text) => f.write_str(text),
            Kind::Rejected(rejection) => rejection.fmt(f),
            Kind::Error(error) => write!(f, "{}: {}", error.code, error.message),
            Kind::Internal(error) => error.fmt(f),
        }
    }
}

/// Codes that are not a handler's to choose are replaced: "resource not found" of earlier revisions by the one that took
/// its place, and whatever else is reserved by an internal error. What the specification defines among them goes with a
/// status and with data of its own: that is what a [`Rejection`] is for.
///
/// Specification: `basic/index`, "Error Codes".
fn permitted(mut error: ErrorObject) -> ErrorObject {
    error.code = match error.code {
        -32002 => code::INVALID_PARAMS,
        -32099..=-32000 => code::INTERNAL_ERROR,
        other => other,
    };
    error
}

/// Why a call has no result.
#[derive(Debug)]
pub(super) enum Failure {
    /// With the status that goes with it.
    Rejected(Rejection),
    /// With status 200: the request was understood and taken, the work failed.
    Error(ErrorObject),
}

impl Failure {
    pub(super) fn internal() -> Self {
        Self::Error(ErrorObject::new(code::INTERNAL_ERROR, "internal error"))
    }
}

impl From<Rejection> for Failure {
    fn from(rejection: Rejection) -> Self {
        Self::Rejected(rejection)
    }
}

/// A server that cannot be built, or a change that cannot be made, as it was asked for.
#[derive(Debug)]
#[non_exhaustive]
pub enum BuildError {
    /// Something of this kind and name is registered already.
    Duplicate {
        /// What it is: `tool`, `prompt`, `resource` or `resource template`.
        kind: &'static str,
        /// Its name or URI.
        name: String,
    },
    /// A JSON Schema is not valid, too large or refers to something outside itself.
    Schema {
        /// Whose schema it is.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// An `x-mcp-header` in a tool's schema breaks the rules of the specification.
    Annotation {
        /// Whose schema it is.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A scope that a tool needs cannot be one.
    Scope {
        /// The tool.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A URI template has a form that is not supported.
    Template {
        /// The template.
        template: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// Something has an empty name.
    Unnamed {
        /// What it is.
        kind: &'static str,
    },
    /// A method has the name of one that the protocol defines.
    SpecMethod {
        /// The name.
        name: String,
    },
    /// A method exists in no revision.
    NoRevision {
        /// Its name.
        name: String,
    },
    /// Something does not serialize as JSON.
    Json(serde_json::Error),
    /// The server was built without anything of this kind, and has not announced it: see
    /// [`Builder`](super::Builder).
    NotOffered {
        /// What it is.
        kind: &'static str,
    },
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Duplicate { kind, name } => {
                write!(f, "a {kind} `{name}` is registered already: give this one another name")
            }
            Self::Schema { name, reason } => write!(f, "the schema of `{name}` cannot be used: {reason}"),
            Self::Annotation { name, reason } => {
                write!(f, "the schema of `{name}` has an invalid `x-mcp-header`: {reason}")
            }
            Self::Scope { name, reason } => write!(f, "in the tool `{name}`: {reason}"),
            Self::Template { template, reason } => {
                write!(f, "the URI template `{template}` cannot be used: {reason}")
            }
            Self::Unnamed { kind } => write!(f, "a {kind} has an empty name"),
            Self::SpecMethod { name } => {
                write!(f, "the protocol itself defines the method `{name}`: give yours another name")
            }
            Self::NoRevision { name } => {
                write!(f, "the method `{name}` exists in no revision: name at least one")
            }
            Self::Json(error) => write!(f, "a definition cannot be written as JSON: {error}"),
            Self::NotOffered { kind } => write!(
                f,
                "the server does not offer a {kind}: register one when it is built, or announce the kind there"
            ),
        }
    }
}

impl std::error::Error for BuildError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Json(error) => Some(error),
            _ => None,
        }
    }
}

impl From<serde_json::Error> for BuildError {
    fn from(error: serde_json::Error) -> Self {
        Self::Json(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_codes_do_not_leave_the_server() {
        let code = |code| permitted(ErrorObject::new(code, "")).code;
        assert_eq!(code(-32002), -32602);
        assert_eq!(code(-32042), -32603);
        assert_eq!(code(-32000), -32603);
        assert_eq!(code(-32099), -32603);
        assert_eq!(code(-32021), -32603);
        assert_eq!(code(-31999), -31999);
        assert_eq!(code(42), 42);
    }

    #[test]
    fn a_rejection_survives_the_question_mark() {
        let error = HandlerError::from(Rejection::method_not_found("x"));
        assert!(matches!(error.into_tool_failure("t"), Err(Failure::Rejected(r)) if r.code() == -32601));
    }

    #[test]
    fn the_text_of_an_internal_error_is_not_shown() {
        let error = HandlerError::from(std::io::Error::other("password=1234"));
        assert_eq!(error.into_tool_failure("t").unwrap(), "tool `t` failed");
        let error = HandlerError::from(std::io::Error::other("password=1234"));
        assert!(
            matches!(error.into_failure("m"), Failure::Error(e) if e.message == "internal error" && e.code == -32603)
        );
    }
}
