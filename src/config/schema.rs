//! The settings as they are written: the types generated from `proto-config/`, and the table of
//! their names, types and documentation, from which files are checked and the reference is made.

/// The generated types. Every field is optional, so that "unset" is known.
#[expect(
    unreachable_pub,
    clippy::allow_attributes,
    clippy::allow_attributes_without_reason,
    clippy::pedantic,
    reason = "generated"
)]
pub(super) mod settings {
    include!(concat!(env!("OUT_DIR"), "/megamon.config.v1alpha1.rs"));
    include!(concat!(
        env!("OUT_DIR"),
        "/megamon.config.v1alpha1.serde.rs"
    ));
}

pub(super) use settings::Settings;

// `static MESSAGES: &[Message]`
include!(concat!(env!("OUT_DIR"), "/schema.rs"));

/// A group of settings.
#[derive(Debug)]
pub(super) struct Message {
    /// Name of its type.
    name: &'static str,
    /// Its settings, in the order in which they are declared.
    pub(super) fields: &'static [Field],
}

/// One setting.
#[derive(Debug)]
pub(super) struct Field {
    /// Name in a file: lowerCamelCase.
    pub(super) name: &'static str,
    /// The same in snake_case, which is taken too.
    pub(super) proto_name: &'static str,
    /// Type of its value.
    pub(super) kind: Kind,
    /// What narrows the type, such as `duration`; empty for nothing.
    pub(super) form: &'static str,
    /// What holds where it is left out: a literal in backticks, or words.
    pub(super) default: &'static str,
    /// What it means.
    pub(super) meaning: &'static str,
}

/// Type of a setting's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A group of settings, by the name of its message.
    Section(&'static str),
    /// Text.
    Text,
    /// True or false.
    Switch,
    /// A whole number from 0 to 4294967295.
    Whole,
    /// A number.
    Number,
    /// A list of text.
    TextList,
    /// Text by name.
    TextMap,
    /// Whole numbers by name.
    WholeMap,
}

/// The message of a document's top.
pub(super) const ROOT: &str = "Settings";

/// The settings of a message; none for a name that the schema does not have.
pub(super) fn fields(message: &str) -> &'static [Field] {
    MESSAGES
        .iter()
        .find(|known| known.name == message)
        .map_or(&[], |known| known.fields)
}

impl Field {
    /// What a value of it should be, for a person whose value it is not.
    pub(super) fn expected(&self) -> String {
        match (self.kind, self.form) {
            (_, "duration") => super::forms::DURATION.to_owned(),
            (_, "IP address and port") => super::forms::ADDRESS.to_owned(),
            (Kind::Section(_), _) => "a group of settings".to_owned(),
            (Kind::Text, "") => "text".to_owned(),
            (Kind::Text, "path") => "the path of a file".to_owned(),
            (Kind::Text, "URL") => "a URL".to_owned(),
            (Kind::Text, form) => form.replace('`', ""),
            (Kind::Switch, _) => "true or false".to_owned(),
            (Kind::Whole, _) => format!("a whole number from 0 to {}", u32::MAX),
            (Kind::Number, _) => "a number".to_owned(),
            (Kind::TextList, _) => "a list of text".to_owned(),
            (Kind::TextMap, _) => "text by name".to_owned(),
            (Kind::WholeMap, _) => "whole numbers by name".to_owned(),
        }
    }
}
