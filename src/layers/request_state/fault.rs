//! Why a state is not sealed, and why one is not taken.

use std::fmt;

/// Why a state is not sealed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SealError {
    /// It would be longer than what is taken back.
    TooLong {
        /// How long the sealed state would be.
        bytes: usize,
        /// How long it may be.
        max: usize,
    },
    /// The operating system gives no randomness to encrypt with; says why.
    NoRandomness(String),
    /// The cipher takes no state of this length.
    Unencryptable,
}

impl fmt::Display for SealError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { bytes, max } => write!(
                f,
                "the sealed state would have {bytes} bytes, and at most {max} are taken back: keep less in it, or raise \
                 with_max_bytes"
            ),
            Self::NoRandomness(why) => write!(f, "the operating system gives no randomness: {why}"),
            Self::Unencryptable => f.write_str("the state is too long to be encrypted"),
        }
    }
}

impl std::error::Error for SealError {}

/// Why a state is not taken. For logs: a caller who learns it learns how to forge one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpenFault {
    /// It is no string.
    NotAString,
    /// It is longer than what is looked at.
    TooLong {
        /// How long it may be.
        max: usize,
    },
    /// It has not the form of a sealed state; says what is wrong.
    Malformed(&'static str),
    /// It was sealed with a key that this server does not have, or not any more.
    UnknownKey,
    /// It was not sealed with the key that it names.
    Forged,
    /// As [`Forged`](Self::Forged), and what it claims to be bound to is not what it came with: these parts differ.
    Elsewhere(Vec<&'static str>),
    /// It was sealed more than a minute from now.
    FromTheFuture,
    /// It has expired.
    Expired,
    /// The first round was too long ago.
    ChainExpired,
    /// An object in the arguments names a member twice.
    AmbiguousArguments,
    /// It may be used once, and has been.
    Used,
}

impl fmt::Display for OpenFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAString => f.write_str("it is not a string"),
            Self::TooLong { max } => {
                write!(f, "it is longer than {max} bytes; with_max_bytes says how long it may be")
            }
            Self::Malformed(what) => f.write_str(what),
            Self::UnknownKey => {
                f.write_str("it was sealed with another key: do all replicas have the same StateKeys?")
            }
            Self::Forged => f.write_str("it was changed, or never sealed here"),
            Self::Elsewhere(parts) => {
                write!(f, "it was changed, or sealed with another {}", parts.join(", another "))
            }
            Self::FromTheFuture => {
                f.write_str("it was sealed in the future: are the clocks of the replicas right?")
            }
            Self::Expired => f.write_str("it has expired; with_lifetime says when it does"),
            Self::ChainExpired => {
                f.write_str("the first round was too long ago; with_max_chain says how long it may be")
            }
            Self::AmbiguousArguments => f.write_str("an object in the arguments names a member twice"),
            Self::Used => f.write_str("it may be used once, and has been"),
        }
    }
}

impl std::error::Error for OpenFault {}
