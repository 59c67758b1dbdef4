//! Setters of options, in a table.

/// Defines a setter for each field, which takes a value of that type; the expression after `=>` converts the value. As
/// `resp2: bool`, or `reason: impl Into<String> => Some(reason.into())`.
macro_rules! setters {
    ($($field:ident: $kind:ty $(=> $made:expr)?,)*) => {
        $($crate::setters::setters!(@ $field: $kind, $($made,)? $field);)*
    };
    (@ $field:ident: $kind:ty, $value:expr $(, $_unused:expr)?) => {
        #[doc = concat!("Sets [`Self::", stringify!($field), "`].")]
        #[must_use]
        pub fn $field(self, $field: $kind) -> Self {
            Self { $field: $value, ..self }
        }
    };
}
pub(crate) use setters;
