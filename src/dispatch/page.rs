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
    let items = registry.snapshot();
    let start = match message.param("cursor") {
        None => 0,
        Some(cursor) => {
            let serial = cursor.to_str().and_then(|cursor| read_cursor(&cursor, registry.kind()));
            let serial = serial.filter(|serial| *serial <= registry.last_serial()).ok_or_else(|| {
                Rejection::invalid_params("the cursor is not valid: start again without `params.cursor`")
            })?;
            items.partition_point(|_, item| item.serial() <= serial)
        }
    };
    let size = size.map_or(usize::MAX, NonZeroUsize::get);
    let mut list = String::from("[");
    let mut ends_with = None;
    let mut more = false;
    let rest = items.get_range(start..).into_iter().flat_map(|slice| slice.iter());
    let enabled = rest.filter_map(|(_, item)| item.enabled().map(|value| (item, value)));
    for (count, (item, value)) in enabled.enumerate() {
        if count == size {
            more = true;
            break;
        }
        if count > 0 {
            list.push(',');
        }
        list.push_str(definition(value));
        ends_with = Some(item.serial());
    }
    list.push(']');

    let mut result = RawObject::new();
    result.push_text(member, list.into());
    if let (true, Some(serial)) = (more, ends_with) {
        let mut cursor = String::new();
        write_string(
            &URL_SAFE_NO_PAD.encode_to_string(format!("{}\n{serial}", registry.kind())),
            &mut cursor,
        );
        result.push_text("nextCursor", cursor.into());
    }
    Ok(result)
}

/// The serial in a cursor of a list of this kind.
fn read_cursor(cursor: &str, kind: &str) -> Option<u64> {
    let text = String::from_utf8(URL_SAFE_NO_PAD.decode_to_vec(cursor).ok()?).ok()?;
    let digits = text.strip_prefix(kind)?.strip_prefix('\n')?;
    let serial: u64 = digits.parse().ok()?;
    // One number has one cursor.
    (serial.to_string() == digits).then_some(serial)
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
