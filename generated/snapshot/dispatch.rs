// @generated from specs/tools/ by `cargo codegen write`. Do not edit.

/// The typed input of some handler.
#[derive(Clone, Debug, PartialEq)]
pub enum AnyInput {
    /// For `write_todolist`.
    WriteTodolist(crate::tools::persistence::write_todolist::Input),
}

impl AnyInput {
    /// Types an input that was normalised and validated, with defaults and the face's bound fields filled in.
    ///
    /// # Errors
    /// The input does not fit the type, or no handler has the tool's `handler` name.
    pub fn parse(
        tool: &devloop_contract::Tool,
        input: &serde_json::Value,
    ) -> Result<Self, serde_json::Error> {
        match tool.handler {
            "write_todolist" => {
                serde::Deserialize::deserialize(input).map(Self::WriteTodolist)
            }
            other => {
                Err(
                    serde::de::Error::custom(
                        format_args!("no handler is called `{other}`"),
                    ),
                )
            }
        }
    }

    /// Whose input it is.
    pub const fn handler(&self) -> crate::HandlerId {
        match self {
            Self::WriteTodolist(_) => crate::HandlerId::WriteTodolist,
        }
    }

    /// The input as JSON again.
    ///
    /// # Errors
    /// A value that JSON cannot say.
    pub fn to_value(&self) -> Result<serde_json::Value, serde_json::Error> {
        match self {
            Self::WriteTodolist(input) => serde_json::to_value(input),
        }
    }
}

/// What implements every handler. It has no blanket implementation: `impl HandleAll for Context {}` makes the
/// compiler name each handler that `Context` lacks.
pub trait HandleAll: devloop_contract::Handle<
        crate::tools::persistence::write_todolist::WriteTodolist,
    > + Sync {}

/// A call on its way.
pub type Dispatched<'a> = std::pin::Pin<
    Box<
        dyn std::future::Future<
            Output = Result<serde_json::Value, devloop_contract::failure::ErasedRefusal>,
        > + Send + 'a,
    >,
>;

/// Carries out one call by the implementation of its handler.
pub fn dispatch<C: HandleAll>(ctx: &C, input: AnyInput) -> Dispatched<'_> {
    match input {
        AnyInput::WriteTodolist(input) => {
            Box::pin(async move {
                let outcome = devloop_contract::Handle::<
                    crate::tools::persistence::write_todolist::WriteTodolist,
                >::handle(ctx, input)
                    .await;
                devloop_contract::failure::erase(outcome)
            })
        }
    }
}
