//! Escapes text for HTML and SVG: names, versions, settings and notes that peers and users wrote.
//! The result opens no tag, ends no attribute and begins no entity of its own.

/// Escapes `text` for an element or a quoted attribute.
pub(crate) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            // XML allows no other control characters.
            control if control.is_control() && !matches!(control, '\n' | '\t') => safe.push('\u{fffd}'),
            other => safe.push(other),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_means_something_in_markup_stays() {
        assert_eq!(
            escaped("<b a=\"1\" c='2'>&amp;\u{1b}"),
            "&lt;b a=&quot;1&quot; c=&#39;2&#39;&gt;&amp;amp;\u{fffd}"
        );
        assert_eq!(escaped("8.2 µs"), "8.2 µs");
    }
}
