//! From typify's items to plain structs and enums, with the spec's docs and order.
//!
//! Leaves out everything else that typify made: its traits, builders and conversions.

use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, quote};

use super::shape::{Field, Inner, Kind, Shape};
use crate::emit::rust::{arms, docs};

/// The tokens of one type, out of what typify made of it.
pub(super) fn render_shape(shape: &Shape, file: &syn::File) -> Result<TokenStream, String> {
    let missing = || format!("typify made no type of `{}`", shape.name);
    let docs = docs(&shape.docs);
    let item = file.items.iter().find(|item| match item {
        syn::Item::Struct(item) => item.ident == shape.name,
        syn::Item::Enum(item) => item.ident == shape.name,
        _ => false,
    });
    Ok(match (&shape.kind, item.ok_or_else(missing)?) {
        (Kind::Struct { fields, closed }, syn::Item::Struct(item)) => {
            let name = &item.ident;
            let closed = closed.then(|| quote!(#[serde(deny_unknown_fields)]));
            let fields = fields
                .iter()
                .map(|field| render_field(field, item))
                .collect::<Result<Vec<_>, _>>()?;
            quote! {
                #docs
                #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
                #closed
                pub struct #name { #(#fields),* }
            }
        }
        (Kind::Enum, syn::Item::Enum(item)) => render_enum(item, &docs),
        (Kind::Newtype(kind), syn::Item::Struct(item)) => {
            let inner = item.fields.iter().next().ok_or_else(missing)?;
            render_newtype(&item.ident, &plain(&inner.ty), *kind, &docs)
        }
        _ => return Err(missing()),
    })
}

fn render_field(field: &Field, item: &syn::ItemStruct) -> Result<TokenStream, String> {
    let made = item
        .fields
        .iter()
        .find(|made| {
            rename(&made.attrs).or_else(|| made.ident.as_ref().map(Ident::to_string)) == Some(field.name.clone())
        })
        .ok_or_else(|| format!("typify made no field of `{}.{}`", item.ident, field.name))?;
    let name = &made.ident;
    if item.fields.iter().filter(|other| other.ident == *name).count() > 1 {
        return Err(format!(
            "two fields of `{}` have the Rust name of `{}`",
            item.ident, field.name
        ));
    }
    let docs = docs(&field.docs);
    let ty = plain(&made.ty);
    let rename = rename(&made.attrs).map(|name| quote!(rename = #name));
    Ok(if field.optional {
        let ty = if ty.to_string().starts_with("Option <") {
            ty
        } else {
            quote!(Option<#ty>)
        };
        let rename = rename.map(|rename| quote!(#rename,));
        quote!(#docs #[serde(#rename default, skip_serializing_if = "Option::is_none")] pub #name: #ty)
    } else {
        let rename = rename.map(|rename| quote!(#[serde(#rename)]));
        quote!(#docs #rename pub #name: #ty)
    })
}

fn render_enum(item: &syn::ItemEnum, docs: &TokenStream) -> TokenStream {
    let name = &item.ident;
    let values: Vec<(Ident, String)> = item
        .variants
        .iter()
        .map(|variant| {
            let value = rename(&variant.attrs).unwrap_or_else(|| variant.ident.to_string());
            (variant.ident.clone(), value)
        })
        .collect();
    let variants = values.iter().map(|(variant, value)| {
        let docs = crate::emit::rust::docs(&format!("`{value}`"));
        let rename = (variant != value).then(|| quote!(#[serde(rename = #value)]));
        quote!(#docs #rename #variant)
    });
    let arms = arms(
        values
            .iter()
            .map(|(variant, value)| (quote!(Self::#variant), quote!(#value))),
    );
    quote! {
        #docs
        #[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        pub enum #name { #(#variants),* }

        impl #name {
            /// The word that stands in JSON.
            pub const fn as_str(self) -> &'static str {
                match self { #arms }
            }
        }
    }
}

fn render_newtype(name: &Ident, inner: &TokenStream, kind: Inner, docs: &TokenStream) -> TokenStream {
    if kind != Inner::Text {
        let derives = match kind {
            Inner::Text | Inner::Other => quote!(Clone, Debug, PartialEq),
            Inner::Exact => quote!(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash),
            Inner::Float => quote!(Clone, Copy, Debug, PartialEq, PartialOrd),
        };
        return quote! {
            #docs
            #[derive(#derives, serde::Serialize, serde::Deserialize)]
            #[serde(transparent)]
            pub struct #name(pub #inner);

            impl From<#inner> for #name {
                fn from(value: #inner) -> Self { Self(value) }
            }
        };
    }
    quote! {
        #docs
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        #[serde(transparent)]
        pub struct #name(pub String);

        impl #name {
            /// The text.
            pub fn as_str(&self) -> &str { &self.0 }
        }

        impl From<String> for #name {
            fn from(text: String) -> Self { Self(text) }
        }

        impl From<&str> for #name {
            fn from(text: &str) -> Self { Self(text.to_owned()) }
        }

        impl From<#name> for String {
            fn from(value: #name) -> Self { value.0 }
        }

        impl std::fmt::Display for #name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { f.write_str(&self.0) }
        }
    }
}

/// The `rename` of a serde attribute.
fn rename(attrs: &[syn::Attribute]) -> Option<String> {
    let mut name = None;
    for attr in attrs.iter().filter(|attr| attr.path().is_ident("serde")) {
        // The other keys stand in the way only when they come first; an unread rest is no error here.
        let _ = attr.parse_nested_meta(|meta| {
            let is_name = meta.path.is_ident("rename");
            if let Ok(value) = meta.value() {
                let value: syn::Lit = value.parse()?;
                if let (true, syn::Lit::Str(value)) = (is_name, value) {
                    name = Some(value.value());
                }
            }
            Ok(())
        });
    }
    name
}

/// A type with the paths of the prelude's types cut short, as a person would write it.
fn plain(ty: &syn::Type) -> TokenStream {
    let syn::Type::Path(path) = ty else {
        return ty.to_token_stream();
    };
    let segments: Vec<String> = path
        .path
        .segments
        .iter()
        .map(|segment| segment.ident.to_string())
        .collect();
    let whole = segments.join("::");
    let from = match whole.as_str() {
        "std::string::String" | "std::vec::Vec" | "std::option::Option" | "std::boxed::Box" => segments.len() - 1,
        _ => 0,
    };
    let mut tokens = TokenStream::new();
    for (index, segment) in path.path.segments.iter().enumerate().skip(from) {
        if index > from {
            tokens.extend(quote!(::));
        }
        segment.ident.to_tokens(&mut tokens);
        if let syn::PathArguments::AngleBracketed(arguments) = &segment.arguments {
            let arguments = arguments.args.iter().map(|argument| match argument {
                syn::GenericArgument::Type(ty) => plain(ty),
                other => other.to_token_stream(),
            });
            tokens.extend(quote!(<#(#arguments),*>));
        }
    }
    tokens
}
