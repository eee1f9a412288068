//! What tools, prompts and resources say: content blocks and what belongs to them.

use std::borrow::Cow;

use base64_simd::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Text of a wire type: borrowed if it is known when the program is built, owned otherwise.
pub type Text = Cow<'static, str>;

/// Who speaks, or whom something is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The person, or the program that acts for one.
    User,
    /// The model.
    Assistant,
}

/// Whom a block is for, how much it matters and when it last changed.
///
/// Specification: `server/resources`, "Annotations".
///
/// ```
/// use mcp_layers::protocol::{Annotations, Role};
///
/// let for_the_model = Annotations::new().with_audience([Role::Assistant]).with_priority(0.9);
/// assert_eq!(serde_json::to_string(&for_the_model)?, r#"{"audience":["assistant"],"priority":0.9}"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Annotations {
    /// Whom it is for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub audience: Vec<Role>,
    /// How much it matters, from 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<f64>,
    /// When it last changed, in the form of ISO 8601.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_modified: Option<Text>,
}

impl Annotations {
    /// Says nothing yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { audience: Vec::new(), priority: None, last_modified: None }
    }

    /// Whom it is for. Defaults to saying nothing.
    #[must_use]
    pub fn with_audience(mut self, audience: impl IntoIterator<Item = Role>) -> Self {
        self.audience = audience.into_iter().collect();
        self
    }

    /// How much it matters, from 0 to 1. Defaults to saying nothing.
    #[must_use]
    pub const fn with_priority(mut self, priority: f64) -> Self {
        self.priority = Some(priority);
        self
    }

    /// When it last changed, in the form of ISO 8601. Defaults to saying nothing.
    #[must_use]
    pub fn with_last_modified(mut self, at: impl Into<Text>) -> Self {
        self.last_modified = Some(at.into());
        self
    }
}

/// One block of a tool's result or of a prompt's message.
///
/// Specification: `server/tools`, "Tool Result".
///
/// ```
/// use mcp_layers::protocol::Content;
///
/// let block = Content::image([1, 2, 3], "image/png");
/// assert_eq!(
///     serde_json::to_string(&block)?,
///     r#"{"type":"image","data":"AQID","mimeType":"image/png"}"#,
/// );
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Content {
    #[serde(flatten)]
    block: Block,
    #[serde(skip_serializing_if = "Option::is_none")]
    annotations: Option<Annotations>,
    #[serde(rename = "_meta", skip_serializing_if = "Map::is_empty")]
    meta: Map<String, Value>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block {
    Text {
        text: Text,
    },
    Image {
        data: Text,
        #[serde(rename = "mimeType")]
        mime_type: Text,
    },
    Audio {
        data: Text,
        #[serde(rename = "mimeType")]
        mime_type: Text,
    },
    Resource {
        resource: ResourceContents,
    },
    ResourceLink(ResourceLink),
}

impl Content {
    fn new(block: Block) -> Self {
        Self { block, annotations: None, meta: Map::new() }
    }

    /// Text.
    #[must_use]
    pub fn text(text: impl Into<Text>) -> Self {
        Self::new(Block::Text { text: text.into() })
    }

    /// An image, given as its bytes.
    #[must_use]
    pub fn image(bytes: impl AsRef<[u8]>, mime_type: impl Into<Text>) -> Self {
        Self::new(Block::Image { data: STANDARD.encode_to_string(bytes).into(), mime_type: mime_type.into() })
    }

    /// Sound, given as its bytes.
    #[must_use]
    pub fn audio(bytes: impl AsRef<[u8]>, mime_type: impl Into<Text>) -> Self {
        Self::new(Block::Audio { data: STANDARD.encode_to_string(bytes).into(), mime_type: mime_type.into() })
    }

    /// A resource's contents, embedded.
    #[must_use]
    pub fn resource(resource: ResourceContents) -> Self {
        Self::new(Block::Resource { resource })
    }

    /// A pointer to a resource that the client can read.
    #[must_use]
    pub fn resource_link(link: ResourceLink) -> Self {
        Self::new(Block::ResourceLink(link))
    }

    /// The same with annotations.
    #[must_use]
    pub fn with_annotations(mut self, annotations: Annotations) -> Self {
        self.annotations = Some(annotations);
        self
    }

    /// The same with one more member of `_meta`.
    #[must_use]
    pub fn with_meta(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.meta.insert(key.into(), value.into());
        self
    }

    /// The text, if the block is text.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match &self.block {
            Block::Text { text } => Some(text),
            _ => None,
        }
    }
}

impl From<String> for Content {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

impl From<&'static str> for Content {
    fn from(text: &'static str) -> Self {
        Self::text(text)
    }
}

/// A pointer to a resource. Annotations and `_meta` belong to the [`Content`] that is made of it.
///
/// Specification: `server/tools`, "Resource Links".
///
/// ```
/// use mcp_layers::protocol::{Content, ResourceLink};
///
/// let link = ResourceLink::new("file:///a.rs", "a.rs").with_mime_type("text/x-rust").with_size(512);
/// assert_eq!(
///     serde_json::to_string(&Content::resource_link(link))?,
///     r#"{"type":"resource_link","uri":"file:///a.rs","name":"a.rs","mimeType":"text/x-rust","size":512}"#,
/// );
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ResourceLink {
    /// Where the resource is.
    pub uri: Text,
    /// Its name for programs.
    pub name: Text,
    /// Its name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<Text>,
    /// What it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<Text>,
    /// Its media type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<Text>,
    /// How many bytes its contents have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Pictures that stand for it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub icons: Vec<Icon>,
}

impl ResourceLink {
    /// A pointer with the two members that it must have.
    #[must_use]
    pub fn new(uri: impl Into<Text>, name: impl Into<Text>) -> Self {
        Self {
            uri: uri.into(),
            name: name.into(),
            title: None,
            description: None,
            mime_type: None,
            size: None,
            icons: Vec::new(),
        }
    }

    /// The same with a name for people.
    #[must_use]
    pub fn with_title(mut self, title: impl Into<Text>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// The same with a description.
    #[must_use]
    pub fn with_description(mut self, description: impl Into<Text>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// The same with a media type.
    #[must_use]
    pub fn with_mime_type(mut self, mime_type: impl Into<Text>) -> Self {
        self.mime_type = Some(mime_type.into());
        self
    }

    /// The same with the number of bytes that its contents have.
    #[must_use]
    pub const fn with_size(mut self, bytes: u64) -> Self {
        self.size = Some(bytes);
        self
    }

    /// The same with pictures that stand for it.
    #[must_use]
    pub fn with_icons(mut self, icons: &[Icon]) -> Self {
        self.icons = icons.to_vec();
        self
    }
}

/// The contents of a resource, or of one part of it.
///
/// Specification: `server/resources`, "Resource Contents".
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceContents {
    uri: Text,
    #[serde(skip_serializing_if = "Option::is_none")]
    mime_type: Option<Text>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<Text>,
    #[serde(skip_serializing_if = "Option::is_none")]
    blob: Option<Text>,
    #[serde(rename = "_meta", skip_serializing_if = "Map::is_empty")]
    meta: Map<String, Value>,
}

impl ResourceContents {
    /// Text.
    #[must_use]
    pub fn text(uri: impl Into<Text>, text: impl Into<Text>) -> Self {
        Self { uri: uri.into(), mime_type: None, text: Some(text.into()), blob: None, meta: Map::new() }
    }

    /// Anything else, given as its bytes.
    #[must_use]
    pub fn blob(uri: impl Into<Text>, bytes: impl AsRef<[u8]>) -> Self {
        let blob = Some(STANDARD.encode_to_string(bytes).into());
        Self { uri: uri.into(), mime_type: None, text: None, blob, meta: Map::new() }
    }

    /// The same with a media type.
    #[must_use]
    pub fn with_mime_type(mut self, mime_type: impl Into<Text>) -> Self {
        self.mime_type = Some(mime_type.into());
        self
    }

    /// The same with one more member of `_meta`.
    #[must_use]
    pub fn with_meta(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.meta.insert(key.into(), value.into());
        self
    }
}

/// One message of a prompt.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PromptMessage {
    role: Role,
    content: Content,
}

impl PromptMessage {
    /// What the user says.
    #[must_use]
    pub fn user(content: impl Into<Content>) -> Self {
        Self { role: Role::User, content: content.into() }
    }

    /// What the assistant says.
    #[must_use]
    pub fn assistant(content: impl Into<Content>) -> Self {
        Self { role: Role::Assistant, content: content.into() }
    }
}

/// A picture that stands for a server, a tool, a prompt or a resource.
///
/// Specification: `basic/index`, "`icons`".
///
/// ```
/// use mcp_layers::protocol::{Icon, IconTheme};
///
/// let icon = Icon::new("https://example.com/dark.svg")
///     .with_mime_type("image/svg+xml")
///     .with_sizes(["any"])
///     .with_theme(IconTheme::Dark);
/// assert_eq!(
///     serde_json::to_string(&icon)?,
///     r#"{"src":"https://example.com/dark.svg","mimeType":"image/svg+xml","sizes":["any"],"theme":"dark"}"#,
/// );
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Icon {
    /// Where it is: an `https:` or a `data:` URI.
    pub src: Text,
    /// Its media type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<Text>,
    /// Its sizes, such as `48x48` or `any`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sizes: Vec<Text>,
    /// The background that it is made for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub theme: Option<IconTheme>,
}

impl Icon {
    /// The picture at `src`, an `https:` or a `data:` URI.
    #[must_use]
    pub fn new(src: impl Into<Text>) -> Self {
        Self { src: src.into(), mime_type: None, sizes: Vec::new(), theme: None }
    }

    /// The same with a media type.
    #[must_use]
    pub fn with_mime_type(mut self, mime_type: impl Into<Text>) -> Self {
        self.mime_type = Some(mime_type.into());
        self
    }

    /// The same with these sizes, such as `48x48` or `any`.
    #[must_use]
    pub fn with_sizes<S: Into<Text>>(mut self, sizes: impl IntoIterator<Item = S>) -> Self {
        self.sizes = sizes.into_iter().map(Into::into).collect();
        self
    }

    /// The same for one kind of background. Defaults to any.
    #[must_use]
    pub const fn with_theme(mut self, theme: IconTheme) -> Self {
        self.theme = Some(theme);
        self
    }
}

/// The background that an [`Icon`] is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum IconTheme {
    /// A light one.
    Light,
    /// A dark one.
    Dark,
}

/// Who may be served a stored result.
///
/// Specification: `server/utilities/caching`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CacheScope {
    /// Everyone.
    Public,
    /// Only the caller who was given it.
    #[default]
    Private,
}
