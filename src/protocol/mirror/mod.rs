//! Reads and writes the values that a request mirrors into its `Mcp-Name` and `Mcp-Param-*` headers.
//!
//! Pure functions over bytes, schemas and JSON text: no request, no response, no status code. A server uses them to
//! check a header against the message, a client to write the header.
//!
//! # Rules
//!
//! Sections without another document are those of "Streamable HTTP", revision 2026-07-28.
//!
//! *Values* ([`decode`], [`encode`])
//!
//! 1. Spaces and tabs around a field value are not part of it (RFC 9110, 5.5).
//! 2. Inside it only 0x20 to 0x7E and the tab are allowed; anything else is invalid ("Value Encoding", "Server
//!    Behavior for Custom Headers").
//! 3. `=?base64?` … `?=` holds base64 of UTF-8 text. The markers are lower-case and may not overlap; any other text
//!    stands for itself ("Value Encoding").
//! 4. One text has one base64 form: padding is required and unused bits are zero (RFC 4648, 3.2 and 3.5).
//! 5. A sender encodes what is not plain, and what would be mistaken for an encoded value ("Value Encoding"). It also
//!    encodes the empty text and inner tabs, which some HTTP software loses.
//!
//! *Declarations* ([`ParamHeaders`])
//!
//! 6. `x-mcp-header: Name` on a parameter's schema mirrors the parameter into `Mcp-Param-Name` ("Schema Extension").
//! 7. Only `properties` keywords lead from the root to the annotated schema, and the root itself is not annotated. An
//!    annotation that is found anywhere else in the schema makes the tool invalid ("Schema Extension").
//! 8. The name is a token of RFC 9110 and not empty ("Schema Extension").
//! 9. The annotated schema says `"type"`: `"string"`, `"integer"` or `"boolean"`, and nothing else; `number` is not
//!    among them ("Schema Extension").
//! 10. No two names are equal without regard to case ("Schema Extension").
//! 11. A fault is reported for the first invalid schema in the order of the search (a schema, then its `properties`,
//!     then its other keywords), and there for the first of rules 7 to 10 that is broken. What is too deep or too much
//!     to search is invalid.
//!
//! *Comparison* ([`matches()`]), and what a sender writes so that it holds ([`header_value`])
//!
//! 12. A value in the message and no header is a mismatch; so is a header and no value, or `null` ("Server Behavior for
//!     Custom Headers"). The latter is stricter than the text: a value that is not in the message must not route it.
//! 13. An object or array has no header form: without a header it is for the tool's schema to refuse, with one it is a
//!     mismatch.
//! 14. Otherwise the decoded header equals the value as text, case included: a string as it is, `true` and `false` in
//!     lower case ("Value Encoding", "Case Sensitivity").
//! 15. A number for an integer parameter is compared as a number, exactly and at any size. The header is written
//!     `-?digits(.digits)?`; the message may use all of JSON's notation ("Server Validation").
//! 16. The argument's type is not judged: that is for the tool's schema to do, with a better message.
//!
//! # Which headers
//!
//! Only `Mcp-Name` and `Mcp-Param-*` are decoded. `MCP-Protocol-Version` and `Mcp-Method` are compared as they are,
//! after [`trim_ows`]. Several lines of one field are for the caller to refuse: joined, they could spell a legal value
//! that nobody sent.

mod compare;
mod decimal;
mod declaration;
mod fault;
mod pointer;
mod sentinel;
mod value;

pub use compare::{BodyValue, Mismatch, matches};
pub(crate) use decimal::Decimal;
pub use declaration::{ParamHeader, ParamHeaders, ParamKind};
pub use fault::{AnnotationFault, InvalidAnnotation};
pub use sentinel::{InvalidField, decode, encode, trim_ows};
pub use value::header_value;
