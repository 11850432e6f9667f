//! Generates, without a protoc binary, the types of the settings, their serde form, and the table
//! of their names, types and documentation from which files are checked and the reference is made.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;

use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, FieldDescriptorProto, FileDescriptorProto};

const ROOT: &str = "proto-config";
const FILE: &str = "megamon/config/v1alpha1/config.proto";
const PACKAGE: &str = ".megamon.config.v1alpha1";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={ROOT}");
    let set = protox::compile([FILE], [ROOT])?;
    let file = set.file.first().ok_or("the schema is empty")?;

    let mut serde = pbjson_build::Builder::new();
    serde.register_file_descriptor(file.clone());
    serde.btree_map(["."]).build(&[PACKAGE])?;

    let out = std::env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?;
    std::fs::write(Path::new(&out).join("schema.rs"), table(file)?)?;

    prost_build::Config::new()
        .btree_map(["."])
        .compile_fds(set)?;
    Ok(())
}

/// The table as Rust: `static MESSAGES: &[Message]`, in the terms of `src/config/schema.rs`.
fn table(file: &FileDescriptorProto) -> Result<String, Box<dyn Error>> {
    let comments: BTreeMap<&[i32], &str> = file
        .source_code_info
        .iter()
        .flat_map(|source| &source.location)
        .map(|at| (at.path.as_slice(), at.leading_comments()))
        .collect();
    let mut code = String::from("static MESSAGES: &[Message] = &[\n");
    for (message, number) in file.message_type.iter().zip(0..) {
        writeln!(code, "Message {{ name: {:?}, fields: &[", message.name())?;
        for (field, index) in message.field.iter().zip(0..) {
            // Field numbers of the descriptor's own schema: 4 is message_type, 2 is field.
            let comment = comments.get([4, number, 2, index].as_slice());
            let comment = comment.copied().unwrap_or_default();
            let Comment {
                meaning,
                form,
                default,
            } = Comment::of(comment);
            if meaning.is_empty() {
                return Err(format!("{}.{} has no comment", message.name(), field.name()).into());
            }
            writeln!(
                code,
                "Field {{ name: {:?}, proto_name: {:?}, kind: {}, form: {form:?}, default: {default:?}, meaning: {meaning:?} }},",
                field.json_name(),
                field.name(),
                kind(message, field)?,
            )?;
        }
        code.push_str("] },\n");
    }
    code.push_str("];\n");
    Ok(code)
}

/// A field's comment: its text, and its lines `Form:` and `Default:`.
#[derive(Default)]
struct Comment {
    meaning: String,
    form: String,
    default: String,
}

impl Comment {
    fn of(text: &str) -> Self {
        let mut comment = Self::default();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            if let Some(form) = line.strip_prefix("Form: ") {
                form.clone_into(&mut comment.form);
            } else if let Some(default) = line.strip_prefix("Default: ") {
                default.clone_into(&mut comment.default);
            } else {
                if !comment.meaning.is_empty() {
                    comment.meaning.push(' ');
                }
                comment.meaning.push_str(line);
            }
        }
        comment
    }
}

fn kind(message: &DescriptorProto, field: &FieldDescriptorProto) -> Result<String, Box<dyn Error>> {
    let named = |name: &str| name.rsplit('.').next().unwrap_or_default().to_owned();
    let type_name = named(field.type_name());
    let entry = message
        .nested_type
        .iter()
        .find(|nested| field.r#type() == Type::Message && nested.name() == type_name);
    let value = entry
        .and_then(|entry| entry.field.iter().find(|field| field.name() == "value"))
        .map(FieldDescriptorProto::r#type);
    Ok(match (field.label(), field.r#type(), value) {
        (_, Type::Message, Some(Type::String)) => "Kind::TextMap".to_owned(),
        (_, Type::Message, Some(Type::Uint32)) => "Kind::WholeMap".to_owned(),
        (Label::Repeated, Type::String, _) => "Kind::TextList".to_owned(),
        (Label::Optional, Type::Message, None) => format!("Kind::Section({type_name:?})"),
        (Label::Optional, Type::String, _) => "Kind::Text".to_owned(),
        (Label::Optional, Type::Bool, _) => "Kind::Switch".to_owned(),
        (Label::Optional, Type::Uint32, _) => "Kind::Whole".to_owned(),
        (Label::Optional, Type::Double, _) => "Kind::Number".to_owned(),
        (label, of, _) => {
            let name = field.name();
            return Err(format!("{name}: {label:?} {of:?} is no kind of setting").into());
        }
    })
}
