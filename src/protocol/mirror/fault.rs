//! What is wrong with an annotation, said to the author of the tool.

use std::{
    error::Error,
    fmt::{self, Write as _},
};

/// No more than this many characters of a name from a schema are repeated in an error's text.
const SHOWN: usize = 64;

/// An `x-mcp-header` annotation that breaks a rule, which makes its tool invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidAnnotation {
    pointer: String,
    fault: AnnotationFault,
}

impl InvalidAnnotation {
    pub(super) const fn new(pointer: String, fault: AnnotationFault) -> Self {
        Self { pointer, fault }
    }

    /// The JSON Pointer of the schema that has the annotation, from the root of the `inputSchema`.
    #[must_use]
    pub fn pointer(&self) -> &str {
        &self.pointer
    }

    /// The rule that is broken.
    #[must_use]
    pub fn fault(&self) -> &AnnotationFault {
        &self.fault
    }
}

/// The rule that an `x-mcp-header` annotation breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AnnotationFault {
    /// The root of the schema is annotated.
    Root,
    /// The annotated schema is not reached from the root through `properties` alone.
    Unreachable {
        /// The first other keyword on the way.
        keyword: Box<str>,
    },
    /// The annotation is not a string.
    NotAString,
    /// The annotation is the empty string.
    Empty,
    /// The name is no token of RFC 9110.
    NotAToken {
        /// The first character that a token may not contain.
        character: char,
    },
    /// The name is longer than a header name can be.
    TooLong,
    /// The annotated schema's own `type` is not exactly `string`, `integer` or `boolean`.
    NotPrimitive {
        /// What `type` says instead; `None` when it is absent or not a string.
        found: Option<Box<str>>,
    },
    /// Another parameter has the same name, compared without regard to case.
    Duplicate {
        /// The name, as it is spelled the second time.
        name: Box<str>,
        /// The JSON Pointer of the parameter that had it first.
        first: String,
    },
    /// The schema has more annotations than a request could have headers.
    TooMany,
    /// The schema is nested so deeply that it was not searched to the end.
    TooDeep,
}

impl fmt::Display for InvalidAnnotation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pointer.as_str() {
            "" => write!(f, "invalid x-mcp-header at the root of the schema: {}", self.fault),
            pointer => write!(f, "invalid x-mcp-header at {}: {}", Shown(pointer), self.fault),
        }
    }
}

impl Error for InvalidAnnotation {}

impl fmt::Display for AnnotationFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => {
                f.write_str("the arguments as a whole cannot be mirrored: annotate one of the properties")
            }
            Self::Unreachable { keyword } => write!(
                f,
                "a parameter inside `{}` cannot be mirrored, only one that `properties` alone lead to from the root: \
                 remove the annotation, or move the parameter",
                Shown(keyword)
            ),
            Self::NotAString => f.write_str(
                "the annotation must be a string, the part of the header's name after `Mcp-Param-`",
            ),
            Self::Empty => f.write_str(
                "the name is empty: write the part of the header's name after `Mcp-Param-`, or remove it",
            ),
            Self::NotAToken { character } => write!(
                f,
                "the name contains {character:?}, which a header's name may not: \
                 use ASCII letters, digits and any of !#$%&'*+-.^_`|~"
            ),
            Self::TooLong => f.write_str("the name is longer than a header's name can be: shorten it"),
            Self::NotPrimitive { found } => {
                match found {
                    Some(found) => write!(f, "the parameter's `type` is `{}`", Shown(found))?,
                    None => f.write_str("the parameter's own `type` is absent, or not a single name")?,
                }
                f.write_str(": only `string`, `integer` and `boolean` can be mirrored")
            }
            Self::Duplicate { name, first } => write!(
                f,
                "the name `{}` already belongs to {}, as case does not count: choose another",
                Shown(name),
                Shown(first)
            ),
            Self::TooMany => {
                f.write_str("the schema has more annotations than a request can have headers: remove some")
            }
            Self::TooDeep => {
                f.write_str("the schema is nested too deeply to be searched for annotations: flatten it")
            }
        }
    }
}

/// A text from a schema as a log line may show it: no control characters, and not all of it if it is long.
struct Shown<'a>(&'a str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut characters = self.0.chars();
        for character in characters.by_ref().take(SHOWN) {
            write!(f, "{}", character.escape_debug())?;
        }
        if characters.next().is_some() { f.write_char('…') } else { Ok(()) }
    }
}
