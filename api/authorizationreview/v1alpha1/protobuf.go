package v1alpha1

// The review has no protobuf form. Its embedded TypeMeta has one, and Go would promote those methods: the serializer
// would then take the review for nothing but its kind, and lose the rest without a word. Methods of the same names that
// match no interface of the serializer hide them, so that protobuf is refused with 400 or 406.

// Size hides TypeMeta's method.
func (*AuthorizationConditionsReview) Size() {}

// Marshal hides TypeMeta's method.
func (*AuthorizationConditionsReview) Marshal() {}

// Unmarshal hides TypeMeta's method.
func (*AuthorizationConditionsReview) Unmarshal() {}
