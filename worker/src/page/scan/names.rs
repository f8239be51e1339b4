//! Which element names mean what to a parser.

use html5ever::tokenizer::Tag;

/// A list of names.
pub(super) type Names = &'static [&'static str];

pub(super) fn is_void(name: &str) -> bool {
    matches!(
        name,
        "area"
            | "base"
            | "basefont"
            | "bgsound"
            | "br"
            | "col"
            | "embed"
            | "frame"
            | "hr"
            | "image"
            | "img"
            | "input"
            | "keygen"
            | "link"
            | "meta"
            | "param"
            | "source"
            | "track"
            | "wbr"
    )
}

/// Parts of a table, which are nothing outside of one.
pub(super) fn is_of_table(name: &str) -> bool {
    matches!(
        name,
        "caption" | "tbody" | "thead" | "tfoot" | "tr" | "td" | "th" | "colgroup"
    )
}

pub(super) fn is_heading(name: &str) -> bool {
    matches!(name, "h1" | "h2" | "h3" | "h4" | "h5" | "h6")
}

/// Elements of MathML that hold text, which may be HTML.
pub(super) fn is_letter(name: &str) -> bool {
    matches!(name, "mi" | "mo" | "mn" | "ms" | "mtext")
}

pub(super) fn is_block(name: &str) -> bool {
    matches!(
        name,
        "address"
            | "article"
            | "aside"
            | "blockquote"
            | "center"
            | "details"
            | "dialog"
            | "dir"
            | "div"
            | "dl"
            | "dt"
            | "dd"
            | "fieldset"
            | "figcaption"
            | "figure"
            | "footer"
            | "form"
            | "h1"
            | "h2"
            | "h3"
            | "h4"
            | "h5"
            | "h6"
            | "header"
            | "hgroup"
            | "hr"
            | "li"
            | "main"
            | "menu"
            | "nav"
            | "ol"
            | "p"
            | "pre"
            | "section"
            | "summary"
            | "table"
            | "ul"
    )
}

/// Which open elements a start tag ends, and which ones it never reaches past.
pub(super) fn implied_end(name: &str) -> (Names, Names) {
    const LISTS: Names = &[
        "ul", "ol", "menu", "dl", "table", "td", "th", "section", "article", "template",
    ];
    const TABLE: Names = &["table", "template"];
    const CELLS: Names = &[
        "td", "th", "caption", "table", "button", "object", "template",
    ];
    match name {
        "li" => (&["li"], LISTS),
        "dt" | "dd" => (&["dt", "dd"], LISTS),
        "option" => (&["option"], &["select", "datalist", "template"]),
        "td" | "th" => (&["td", "th"], TABLE),
        "tr" => (&["tr"], TABLE),
        "tbody" | "tfoot" => (&["thead", "tbody", "tfoot"], TABLE),
        "rp" | "rt" => (&["rp", "rt"], &["ruby", "template"]),
        "a" => (&["a"], CELLS),
        _ if is_block(name) => (&["p"], CELLS),
        _ => (&[], &[]),
    }
}

/// Start tags that end foreign content (HTML, 13.2.6.5).
pub(super) fn breaks_out(tag: &Tag) -> bool {
    let shows = |name: &str| {
        let mut names = tag.attrs.iter().map(|one| &*one.name.local);
        names.any(|one| one == name)
    };
    if &*tag.name == "font" {
        return ["color", "face", "size"].into_iter().any(shows);
    }
    matches!(
        &*tag.name,
        "b" | "big"
            | "blockquote"
            | "body"
            | "br"
            | "center"
            | "code"
            | "dd"
            | "div"
            | "dl"
            | "dt"
            | "em"
            | "embed"
            | "h1"
            | "h2"
            | "h3"
            | "h4"
            | "h5"
            | "h6"
            | "head"
            | "hr"
            | "i"
            | "img"
            | "li"
            | "listing"
            | "menu"
            | "meta"
            | "nobr"
            | "ol"
            | "p"
            | "pre"
            | "ruby"
            | "s"
            | "small"
            | "span"
            | "strong"
            | "strike"
            | "sub"
            | "sup"
            | "table"
            | "tt"
            | "u"
            | "ul"
            | "var"
    )
}

/// Elements after which no frame set can take the place of the body.
pub(super) fn shows_something(tag: &Tag) -> bool {
    let is_hidden = || {
        let mut attributes = tag.attrs.iter();
        attributes.any(|one| &*one.name.local == "type" && one.value.eq_ignore_ascii_case("hidden"))
    };
    match &*tag.name {
        "body" | "pre" | "listing" | "li" | "dd" | "dt" | "button" | "applet" | "marquee"
        | "object" | "table" | "area" | "br" | "embed" | "img" | "image" | "keygen" | "wbr"
        | "hr" | "textarea" | "xmp" | "iframe" | "select" | "template" => true,
        "input" => !is_hidden(),
        _ => false,
    }
}

/// Elements that do not end the head when they begin.
pub(super) fn is_head_element(name: &str) -> bool {
    matches!(
        name,
        "html"
            | "head"
            | "title"
            | "base"
            | "basefont"
            | "bgsound"
            | "link"
            | "meta"
            | "script"
            | "style"
            | "noscript"
            | "noframes"
            | "template"
    )
}
