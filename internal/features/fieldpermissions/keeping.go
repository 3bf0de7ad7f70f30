package fieldpermissions

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/features/feature"
	"proviso.dev/proviso/internal/features/fieldpermissions/crdschema"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/state/kept"
	"proviso.dev/proviso/internal/state/snapshot"
)

// escalation asks the chain.
type escalation struct{ chain *authorize.Chain }

// MayDeclare implements crdschema.Escalation. Only an explicit allow counts.
func (e escalation) MayDeclare(ctx context.Context) error {
	caller, ok := request.UserFrom(ctx)
	if !ok {
		return errors.New("no user in the request")
	}
	decision, _, err := e.chain.Authorize(ctx, authorizer.AttributesRecord{
		User: caller, Verb: "escalate", APIGroup: policyv1alpha1.GroupName, APIVersion: policyv1alpha1.SchemeGroupVersion.Version,
		Resource: snapshot.FieldPermissions.Resource, ResourceRequest: true,
	})
	if decision == authorizer.DecisionAllow {
		return nil
	}
	text := ""
	if err != nil {
		text = " (the authorizer failed)"
	}
	return fmt.Errorf("user %q needs the verb \"escalate\" on fieldpermissions.policy.proviso.dev to repeat or remove declarations that were lost while field permissions were switched off%s", caller.GetName(), text)
}

// keeping brings what is kept up to date with what is stored, and says in a condition of a definition what is missing
// in it (FP-18). Every replica does: they agree, since each change of a record is made against what is stored then.
type keeping struct {
	kernel      *feature.Kernel
	keeper      *kept.Keeper
	definitions snapshot.Objects
	wake        chan struct{}
	client      func() (*apiextensionsclient.ApiextensionsV1Client, error)
}

func newKeeping(k *feature.Kernel, keeper *kept.Keeper, from snapshot.Source) (*keeping, error) {
	definitions, err := from.Objects(snapshot.Definitions)
	if err != nil {
		return nil, err
	}
	s := &keeping{kernel: k, keeper: keeper, definitions: definitions, wake: make(chan struct{}, 1)}
	// Clients of protobuf see the annotation.
	keeper.OnChange(s.changed)
	s.client = sync.OnceValues(func() (*apiextensionsclient.ApiextensionsV1Client, error) {
		config := rest.CopyConfig(k.Clients.Config())
		config.ContentType, config.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf
		return apiextensionsclient.NewForConfig(config)
	})
	if definitions == nil {
		return s, nil
	}
	_, err = definitions.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { s.changed() }, UpdateFunc: func(any, any) { s.changed() }, DeleteFunc: func(any) { s.changed() },
	})
	return s, err
}

func (s *keeping) changed() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// sweep is how often everything is looked at, whether or not anything has changed.
const sweep = time.Minute

// Run implements feature.Runner.
func (s *keeping) Run(ctx context.Context) {
	wait := sweep
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		case <-time.After(wait):
		}
		wait = sweep
		if err := s.settle(ctx); err != nil && ctx.Err() == nil {
			klog.V(2).InfoS("What custom resources declare could not be kept; the server tries again", "err", err)
			wait = time.Second
		}
	}
}

// settle looks for definitions that are not as they were kept.
func (s *keeping) settle(ctx context.Context) error {
	if !s.keeper.HasSynced() || s.definitions == nil || !s.kernel.Store.Current().Synced {
		return errors.New("not everything has been read yet")
	}
	if err := s.kernel.Replicas.Agreed(); err != nil {
		return err // it may be that the gate is off
	}
	var failed []error
	there := map[types.UID]bool{}
	for _, crd := range snapshot.Of[*apiextensionsv1.CustomResourceDefinition](s.definitions) {
		there[crd.UID] = true
		rec, known := s.keeper.Known(crd.UID)
		text := crd.Annotations[crdschema.Annotation]
		if known && (rec.Last.Text != text || len(rec.Next) > 0) || !known && text != "" {
			failed = append(failed, s.settleOne(ctx, crd.UID, crd.Name))
		}
		if known || apihelpers.FindCRDCondition(crd, policyv1alpha1.ConditionDeclarationsMissing) != nil {
			failed = append(failed, s.report(ctx, crd))
		}
	}
	for _, uid := range s.keeper.UIDs() {
		if rec, known := s.keeper.Known(uid); known && !there[uid] {
			failed = append(failed, s.settleOne(ctx, uid, rec.Name))
		}
	}
	return errors.Join(failed...)
}

// settleOne reads the record, and then the definition from etcd: nothing that was stored before is newer than both.
func (s *keeping) settleOne(ctx context.Context, uid types.UID, name string) error {
	client, err := s.client()
	if err != nil {
		return err
	}
	return s.keeper.Change(ctx, uid, func(ctx context.Context, rec *kept.Record) error {
		crd, err := client.CustomResourceDefinitions().Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err), err == nil && crd.UID != uid:
			rec.Expire(time.Now())
			return nil
		case err != nil:
			return err
		}
		return crdschema.Settle(rec, crd, time.Now())
	})
}

// report writes the condition, or removes it.
func (s *keeping) report(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition) error {
	rec, _ := s.keeper.Known(crd.UID)
	lost := crdschema.LostFrom(crd, rec)
	shown := apihelpers.FindCRDCondition(crd, policyv1alpha1.ConditionDeclarationsMissing)
	message := lost.Message()
	if shown == nil && message == "" || shown != nil && shown.Message == message && shown.Status == apiextensionsv1.ConditionTrue {
		return nil
	}
	client, err := s.client()
	if err != nil {
		return err
	}
	// What the informer has may be older than what is kept.
	stored, err := client.CustomResourceDefinitions().Get(ctx, crd.Name, metav1.GetOptions{})
	// One that is being deleted is left to the finalizer, which upstream does not call again after every conflict.
	if apierrors.IsNotFound(err) || err == nil && (stored.UID != crd.UID || stored.DeletionTimestamp != nil) {
		return nil
	}
	if err != nil {
		return err
	}
	if stored.Annotations[crdschema.Annotation] != crd.Annotations[crdschema.Annotation] {
		return nil // its event is on the way
	}
	apihelpers.RemoveCRDCondition(stored, policyv1alpha1.ConditionDeclarationsMissing)
	if message != "" {
		apihelpers.SetCRDCondition(stored, apiextensionsv1.CustomResourceDefinitionCondition{
			Type: policyv1alpha1.ConditionDeclarationsMissing, Status: apiextensionsv1.ConditionTrue, Reason: "WrittenUnseen", Message: message,
		})
	}
	_, err = client.CustomResourceDefinitions().UpdateStatus(ctx, stored, metav1.UpdateOptions{})
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// withLost reads what a definition declares, and what it declared once and still holds.
func withLost(keeper *kept.Keeper) func(any) snapshot.CustomFields {
	return func(definition any) snapshot.CustomFields {
		custom := readDefinition(definition)
		crd, ok := definition.(*apiextensionsv1.CustomResourceDefinition)
		if !ok {
			return custom
		}
		rec, known := keeper.Known(crd.UID)
		if !known {
			return custom
		}
		lost := crdschema.LostFrom(crd, rec)
		custom.Declared = append(slices.Clip(custom.Declared), lost.Declared...)
		custom.Templates = append(slices.Clip(custom.Templates), lost.Templates...)
		if custom.Problem == "" {
			custom.Problem = lost.Problem
		}
		return custom
	}
}
