package v1

import (
	authorizationv1 "k8s.io/api/authorization/v1"
)

// In protobuf the reviews are Kubernetes' own: these methods are what its serializer looks for, and they delegate to
// the stock types. What only JSON can say is not lost silently in the dangerous direction: see foldedStatus.

// Reset empties the review before it is decoded.
func (r *SubjectAccessReview) Reset() { *r = SubjectAccessReview{} }

// Marshal encodes the review as Kubernetes' type.
func (r *SubjectAccessReview) Marshal() ([]byte, error) {
	stock := authorizationv1.SubjectAccessReview{
		TypeMeta: r.TypeMeta, ObjectMeta: r.ObjectMeta,
		Spec: r.Spec.SubjectAccessReviewSpec, Status: foldedStatus(&r.Status),
	}
	return stock.Marshal()
}

// Unmarshal decodes Kubernetes' type.
func (r *SubjectAccessReview) Unmarshal(data []byte) error {
	var stock authorizationv1.SubjectAccessReview
	if err := stock.Unmarshal(data); err != nil {
		return err
	}
	r.ObjectMeta, r.Spec.SubjectAccessReviewSpec = stock.ObjectMeta, stock.Spec
	r.Status.SubjectAccessReviewStatus = stock.Status
	return nil
}

// Reset empties the review before it is decoded.
func (r *SelfSubjectAccessReview) Reset() { *r = SelfSubjectAccessReview{} }

// Marshal encodes the review as Kubernetes' type.
func (r *SelfSubjectAccessReview) Marshal() ([]byte, error) {
	stock := authorizationv1.SelfSubjectAccessReview{
		TypeMeta: r.TypeMeta, ObjectMeta: r.ObjectMeta,
		Spec: r.Spec.SelfSubjectAccessReviewSpec, Status: foldedStatus(&r.Status),
	}
	return stock.Marshal()
}

// Unmarshal decodes Kubernetes' type.
func (r *SelfSubjectAccessReview) Unmarshal(data []byte) error {
	var stock authorizationv1.SelfSubjectAccessReview
	if err := stock.Unmarshal(data); err != nil {
		return err
	}
	r.ObjectMeta, r.Spec.SelfSubjectAccessReviewSpec = stock.ObjectMeta, stock.Spec
	r.Status.SubjectAccessReviewStatus = stock.Status
	return nil
}

// Reset empties the review before it is decoded.
func (r *LocalSubjectAccessReview) Reset() { *r = LocalSubjectAccessReview{} }

// Marshal encodes the review as Kubernetes' type.
func (r *LocalSubjectAccessReview) Marshal() ([]byte, error) {
	stock := authorizationv1.LocalSubjectAccessReview{
		TypeMeta: r.TypeMeta, ObjectMeta: r.ObjectMeta,
		Spec: r.Spec.SubjectAccessReviewSpec, Status: foldedStatus(&r.Status),
	}
	return stock.Marshal()
}

// Unmarshal decodes Kubernetes' type.
func (r *LocalSubjectAccessReview) Unmarshal(data []byte) error {
	var stock authorizationv1.LocalSubjectAccessReview
	if err := stock.Unmarshal(data); err != nil {
		return err
	}
	r.ObjectMeta, r.Spec.SubjectAccessReviewSpec = stock.ObjectMeta, stock.Spec
	r.Status.SubjectAccessReviewStatus = stock.Status
	return nil
}

// foldedStatus is the status for a reader that knows no conditions. A caller may ask in JSON and want the answer in
// protobuf: a condition that could deny then denies, since "no opinion" would let the next authorizer allow.
func foldedStatus(s *SubjectAccessReviewStatus) authorizationv1.SubjectAccessReviewStatus {
	stock := s.SubjectAccessReviewStatus
	for _, set := range s.ConditionsChain {
		stock.Denied = stock.Denied || set.Denied
		for _, c := range set.Conditions {
			stock.Denied = stock.Denied || c.Effect == EffectDeny
		}
	}
	stock.Denied = stock.Denied || s.ConditionalDecision.canDeny()
	return stock
}

func (d *ConditionsAwareDecision) canDeny() bool {
	if d == nil {
		return false
	}
	if d.Type == DecisionDeny || d.ConditionsMap != nil && len(d.ConditionsMap.DenyConditions) > 0 {
		return true
	}
	for i := range d.Union {
		if d.Union[i].Decision.canDeny() {
			return true
		}
	}
	return false
}
