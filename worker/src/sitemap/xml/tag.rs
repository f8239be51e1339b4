//! Names and attributes of tags, compared without case and prefix.

use quick_xml::events::BytesStart;

/// Prefix and local name in lower case.
pub(super) fn split_name(name: &str) -> (String, String) {
    let (prefix, local) = name.split_once(':').unwrap_or(("", name));
    (prefix.to_ascii_lowercase(), local.to_ascii_lowercase())
}

/// An attribute's value by its local name; the first of that name counts.
pub(super) fn attribute(tag: &BytesStart<'_>, local: &str) -> Option<String> {
    let mut attributes = tag.html_attributes();
    let attributes = attributes.with_checks(false);
    attributes.flatten().find_map(|attribute| {
        let (_, name) = split_name(attribute.key.as_ref());
        (name == local).then(|| unescaped(&attribute.value))
    })
}

fn unescaped(text: &str) -> String {
    quick_xml::escape::unescape(text).map_or_else(|_| text.to_owned(), |text| text.into_owned())
}
