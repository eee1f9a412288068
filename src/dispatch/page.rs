//! Lists, page by page.

use std::num::NonZeroUsize;

use base64_simd::URL_SAFE_NO_PAD;
use bytestring::ByteString;

use super::registry::Registry;
use crate::message::{Message, RawObject, write_string};
use crate::rejection::Rejection;

/// Builds one page of the list `member`, made of the items' definitions.
///
/// A cursor holds the serial of the item that the page before ended with, so it stays right while items come and go,
/// that very item included.
///
/// Specification: `server/utilities/pagination`.
pub(super) fn page<'a, T: 'a>(
    message: &Message,
    registry: &'a Registry<T>,
    member: &'static str,
    size: Option<NonZeroUsize>,
    definition: impl Fn(&T) -> &ByteString,
) -> Result<RawObject, Rejection> {
    let mut page = Page::new(size);
    page.take(message, registry, definition)?;
    Ok(page.into_result(member))
}

/// A page as far as it has been filled.
pub(super) struct Page {
    /// A JSON array that is not closed yet.
    list: String,
    /// How many more items there is room for.
    room: usize,
    next: Option<String>,
}

impl Page {
    /// An empty page with room for `size` items, or for any number.
    pub(super) fn new(size: Option<NonZeroUsize>) -> Self {
        Self { list: String::from("["), room: size.map_or(usize::MAX, NonZeroUsize::get), next: None }
    }

    /// Whether the page has said where the next one begins.
    pub(super) fn is_ended(&self) -> bool {
        self.next.is_some()
    }

    /// Adds the JSON of an item, if there is room for it.
    pub(super) fn push(&mut self, item: &str) -> bool {
        if self.room == 0 {
            return false;
        }
        self.room -= 1;
        if self.list.len() > 1 {
            self.list.push(',');
        }
        self.list.push_str(item);
        true
    }

    /// The next page begins where this cursor says.
    pub(super) fn end<const N: usize>(&mut self, kind: &str, numbers: [u64; N]) {
        self.next = Some(cursor_of(kind, numbers));
    }

    /// Adds what the registry has, from where the message's cursor says.
    pub(super) fn take<T>(
        &mut self,
        message: &Message,
        registry: &Registry<T>,
        definition: impl Fn(&T) -> &ByteString,
    ) -> Result<(), Rejection> {
        let items = registry.snapshot();
        let start = match message.param("cursor") {
            None => 0,
            Some(cursor) => {
                let serial = cursor.to_str().and_then(|cursor| read_cursor(&cursor, registry.kind()));
                let [serial] =
                    serial.filter(|[serial]| *serial <= registry.last_serial()).ok_or_else(bad_cursor)?;
                items.partition_point(|_, item| item.serial() <= serial)
            }
        };
        let rest = items.get_range(start..).into_iter().flat_map(|slice| slice.iter());
        let mut ends_with = 0;
        for (item, value) in rest.filter_map(|(_, item)| item.enabled().map(|value| (item, value))) {
            if !self.push(definition(value)) {
                self.end(registry.kind(), [ends_with]);
                break;
            }
            ends_with = item.serial();
        }
        Ok(())
    }

    pub(super) fn into_result(mut self, member: &'static str) -> RawObject {
        self.list.push(']');
        let mut result = RawObject::new();
        result.push_text(member, self.list.into());
        if let Some(next) = self.next {
            let mut cursor = String::new();
            write_string(&next, &mut cursor);
            result.push_text("nextCursor", cursor.into());
        }
        result
    }
}

pub(super) fn bad_cursor() -> Rejection {
    Rejection::invalid_params("the cursor is not valid: start again without `params.cursor`")
}

fn cursor_of<const N: usize>(kind: &str, numbers: [u64; N]) -> String {
    let numbers = numbers.map(|number| number.to_string()).join("\n");
    URL_SAFE_NO_PAD.encode_to_string(format!("{kind}\n{numbers}"))
}

/// The numbers in a cursor of this kind.
pub(super) fn read_cursor<const N: usize>(cursor: &str, kind: &str) -> Option<[u64; N]> {
    let text = String::from_utf8(URL_SAFE_NO_PAD.decode_to_vec(cursor).ok()?).ok()?;
    let digits = text.strip_prefix(kind)?.strip_prefix('\n')?;
    let numbers: Result<Vec<u64>, _> = digits.split('\n').map(str::parse).collect();
    let numbers = numbers.ok()?.try_into().ok()?;
    // The same place has one cursor.
    (cursor_of(kind, numbers) == cursor).then_some(numbers)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn registry(names: &[&str]) -> Registry<ByteString> {
        let registry = Registry::new("tool");
        for name in names {
            registry.insert(name, Arc::new(ByteString::from(format!("\"{name}\"")))).unwrap();
        }
        registry
    }

    fn message(params: &str) -> Message {
        Message::parse(format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{params}}}"#))
            .unwrap()
    }

    fn list(
        registry: &Registry<ByteString>,
        params: &str,
        size: usize,
    ) -> Result<(String, Option<String>), Rejection> {
        let size = NonZeroUsize::new(size);
        let result = page(&message(params), registry, "tools", size, |text| text)?;
        let next = result.get("nextCursor").map(|cursor| cursor.text().to_owned());
        Ok((result.get("tools").unwrap().text().to_owned(), next))
    }

    #[test]
    fn pages_follow_each_other_until_there_is_no_cursor() {
        let registry = registry(&["a", "b", "c", "d", "e"]);
        registry.set_enabled("c", false);
        let (first, next) = list(&registry, "{}", 2).unwrap();
        assert_eq!(first, r#"["a","b"]"#);
        let (second, end) = list(&registry, &format!(r#"{{"cursor":{}}}"#, next.unwrap()), 2).unwrap();
        assert_eq!((second.as_str(), end), (r#"["d","e"]"#, None));
    }

    #[test]
    fn without_a_page_size_there_is_one_page() {
        assert_eq!(list(&registry(&["a", "b"]), "{}", 0).unwrap(), (r#"["a","b"]"#.to_owned(), None));
        assert_eq!(list(&registry(&[]), "{}", 0).unwrap(), ("[]".to_owned(), None));
    }

    #[test]
    fn a_cursor_survives_changes_around_it() {
        let registry = registry(&["a", "b", "c"]);
        let (_, next) = list(&registry, "{}", 2).unwrap();
        let params = format!(r#"{{"cursor":{}}}"#, next.unwrap());
        registry.remove("a");
        assert_eq!(list(&registry, &params, 2).unwrap().0, r#"["c"]"#);
        registry.remove("b");
        assert_eq!(list(&registry, &params, 2).unwrap().0, r#"["c"]"#);
        registry.insert("b", Arc::new("\"new b\"".into())).unwrap();
        assert_eq!(list(&registry, &params, 2).unwrap().0, r#"["c","new b"]"#);
    }

    #[test]
    fn a_cursor_that_this_list_did_not_give_is_refused() {
        let registry = registry(&["a"]);
        let foreign = URL_SAFE_NO_PAD.encode_to_string("prompt\n1");
        let future = URL_SAFE_NO_PAD.encode_to_string("tool\n2");
        let padded = URL_SAFE_NO_PAD.encode_to_string("tool\n01");
        for cursor in [
            "\"\"",
            "\"bogus\"",
            "7",
            "null",
            "{}",
            &format!("\"{foreign}\""),
            &format!("\"{future}\""),
            &format!("\"{padded}\""),
        ] {
            let error = list(&registry, &format!(r#"{{"cursor":{cursor}}}"#), 2).unwrap_err();
            assert_eq!((error.status().as_u16(), error.code()), (400, -32602), "{cursor}");
        }
    }
}
