//! A reader of JSON text, value by value. Numbers come as they are written: serde_json would round
//! doubles (without `float_roundtrip`) and integers above 64 bits, and does not see names twice.

use std::borrow::Cow;

use super::error::Problem;

/// The beginning of a value; of an object or list, the bracket.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::payload) enum Token<'a> {
    Null,
    Bool(bool),
    Number(&'a str),
    Text(Cow<'a, str>),
    Object,
    List,
}

#[derive(Clone)]
pub(in crate::payload) struct Json<'a> {
    text: &'a str,
    at: usize,
}

type Read<T> = Result<T, Problem>;

impl<'a> Json<'a> {
    pub(in crate::payload) fn new(text: &'a [u8]) -> Read<Self> {
        let text = std::str::from_utf8(text).map_err(|_| Problem::NotUtf8)?;
        Ok(Self { text, at: 0 })
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// The next byte that is no white space; it is taken.
    fn next(&mut self) -> Read<u8> {
        while let Some(byte) = self.peek() {
            self.at += 1;
            if !matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
                return Ok(byte);
            }
        }
        Err(Problem::NotJson)
    }

    pub(in crate::payload) fn token(&mut self) -> Read<Token<'a>> {
        match self.next()? {
            b'{' => Ok(Token::Object),
            b'[' => Ok(Token::List),
            b'"' => self.string().map(Token::Text),
            b'n' => self.word("ull", Token::Null),
            b't' => self.word("rue", Token::Bool(true)),
            b'f' => self.word("alse", Token::Bool(false)),
            b'-' | b'0'..=b'9' => {
                let start = self.at - 1;
                let rest = &self.text.as_bytes()[start..];
                let length = number_length(rest).ok_or(Problem::NotJson)?;
                self.at = start + length;
                Ok(Token::Number(&self.text[start..self.at]))
            }
            _ => Err(Problem::NotJson),
        }
    }

    fn word(&mut self, rest: &str, token: Token<'a>) -> Read<Token<'a>> {
        let is_there = self.text.as_bytes()[self.at..].starts_with(rest.as_bytes());
        self.at += rest.len();
        if is_there { Ok(token) } else { Err(Problem::NotJson) }
    }

    /// The next name in an object, `None` at its end. `first` is set before the first one.
    pub(in crate::payload) fn name(&mut self, first: &mut bool) -> Read<Option<Cow<'a, str>>> {
        let byte = match (self.next()?, std::mem::take(first)) {
            (b'}', _) => return Ok(None),
            (b',', false) => self.next()?,
            (byte, true) => byte,
            _ => return Err(Problem::NotJson),
        };
        if byte != b'"' {
            return Err(Problem::NotJson);
        }
        let name = self.string()?;
        if self.next()? == b':' { Ok(Some(name)) } else { Err(Problem::NotJson) }
    }

    /// True if there is another element in a list.
    pub(in crate::payload) fn element(&mut self, first: &mut bool) -> Read<bool> {
        let before = self.at;
        match (self.next()?, std::mem::take(first)) {
            (b']', _) => return Ok(false),
            (b',', false) => {}
            (_, true) => self.at = before,
            _ => return Err(Problem::NotJson),
        }
        Ok(true)
    }

    /// Passes over the rest of a value; objects and lists in it at most `depth` deep.
    pub(in crate::payload) fn skip(&mut self, token: &Token<'_>, depth: usize) -> Read<()> {
        let mut first = true;
        match token {
            Token::Object => {
                while self.name(&mut first)?.is_some() {
                    let token = self.token()?;
                    self.skip(&token, below(depth)?)?;
                }
            }
            Token::List => {
                while self.element(&mut first)? {
                    let token = self.token()?;
                    self.skip(&token, below(depth)?)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    pub(in crate::payload) fn finish(mut self) -> Read<()> {
        match self.next() {
            Err(_) => Ok(()),
            Ok(_) => Err(Problem::NotJson),
        }
    }

    /// The text behind an opening quote.
    fn string(&mut self) -> Read<Cow<'a, str>> {
        let start = self.at;
        let plain = self.plain()?;
        if self.text.as_bytes()[self.at] == b'"' {
            self.at += 1;
            return Ok(plain.into());
        }
        let mut whole = self.text[start..self.at].to_owned();
        loop {
            let byte = self.text.as_bytes()[self.at];
            self.at += 1;
            if byte == b'"' {
                return Ok(whole.into());
            }
            whole.push(self.escape()?);
            whole.push_str(self.plain()?);
        }
    }

    /// Up to a quote or a backslash, where it stops.
    fn plain(&mut self) -> Read<&'a str> {
        let rest = &self.text.as_bytes()[self.at..];
        let length = rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20)).ok_or(Problem::NotJson)?;
        if rest[length] < 0x20 {
            return Err(Problem::NotJson);
        }
        let plain = &self.text[self.at..self.at + length];
        self.at += length;
        Ok(plain)
    }

    /// The character that is written behind a backslash.
    fn escape(&mut self) -> Read<char> {
        let byte = self.peek().ok_or(Problem::NotJson)?;
        self.at += 1;
        Ok(match byte {
            b'"' | b'\\' | b'/' => char::from(byte),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let mut code = self.hex()?;
                if (0xd800..0xdc00).contains(&code) && self.text.as_bytes()[self.at..].starts_with(b"\\u") {
                    self.at += 2;
                    let low = self.hex()?.checked_sub(0xdc00).filter(|low| *low < 0x400).ok_or(Problem::NotJson)?;
                    code = 0x10000 + ((code - 0xd800) << 10) + low;
                }
                // Half a pair is no character.
                char::from_u32(code).ok_or(Problem::NotJson)?
            }
            _ => return Err(Problem::NotJson),
        })
    }

    fn hex(&mut self) -> Read<u32> {
        let digits = self.text.as_bytes().get(self.at..self.at + 4).ok_or(Problem::NotJson)?;
        self.at += 4;
        digits.iter().try_fold(0, |code, digit| {
            let digit = char::from(*digit).to_digit(16).ok_or(Problem::NotJson)?;
            Ok(code << 4 | digit)
        })
    }

    /// True if `text` is one number as JSON writes it.
    pub(in crate::payload) fn is_number(text: &str) -> bool {
        number_length(text.as_bytes()) == Some(text.len())
    }
}

fn below(depth: usize) -> Read<usize> {
    depth.checked_sub(1).ok_or(Problem::TooDeep)
}

/// Length in bytes of the number at the beginning.
fn number_length(bytes: &[u8]) -> Option<usize> {
    let start = usize::from(bytes.first() == Some(&b'-'));
    let mut at = if bytes.get(start) == Some(&b'0') { start + 1 } else { end_of_digits(bytes, start)? };
    if bytes.get(at) == Some(&b'.') {
        at = end_of_digits(bytes, at + 1)?;
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
        at = end_of_digits(bytes, (at + 1 + sign).min(bytes.len()))?;
    }
    Some(at)
}

/// End of the digits that begin at `at`; `None` if there are none.
fn end_of_digits(bytes: &[u8], at: usize) -> Option<usize> {
    let count = bytes[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    (count > 0).then_some(at + count)
}
