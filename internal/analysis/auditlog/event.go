package auditlog

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
)

// decisionKey is upstream's annotation, and checksKey that of field permissions (FP-12).
const (
	decisionKey = "authorization.k8s.io/decision"
	checksKey   = "fieldpermissions.proviso.dev/checks"
)

// event is one line, or one item of one.
type event struct {
	Request
	id, stage        string
	kind, apiVersion string
	items            []byte
}

// parser reads events. It remembers texts and users that come again and again, up to a bound.
type parser struct {
	texts map[string]string
	users map[string]*user.DefaultInfo
}

// maxRemembered bounds what a parser remembers of each.
const maxRemembered = 20_000

func newParser() *parser {
	return &parser{texts: map[string]string{}, users: map[string]*user.DefaultInfo{}}
}

var errKind = errors.New("this is not an event of audit.k8s.io/v1")

// event reads one event. What it returns may have no user.
func (p *parser) event(text []byte, e *event) error {
	*e = event{}
	s := scanner{text: text}
	if s.peek() != '{' {
		if _, err := s.value(0); err != nil || !s.end() {
			return errJSON
		}
		return errKind
	}
	var who, impersonated, ref []byte
	err := s.object(func(key string, value []byte) (err error) {
		switch key {
		case "kind":
			e.kind, err = p.text(key, value)
		case "apiVersion":
			e.apiVersion, err = p.text(key, value)
		case "items":
			e.items = value
		case "level":
			e.Level, err = p.text(key, value)
		case "auditID":
			e.id, err = fresh(key, value)
		case "stage":
			e.stage, err = p.text(key, value)
		case "requestURI":
			e.URI, err = fresh(key, value)
		case "verb":
			e.Verb, err = p.text(key, value)
		case "user":
			who = value
		case "impersonatedUser":
			impersonated = value
		case "authenticationMetadata":
			err = e.authentication(p, value)
		case "objectRef":
			ref = value
		case "responseStatus":
			err = e.status(value)
		case "requestObject":
			e.Object = body(value)
		case "responseObject":
			e.Answer = body(value)
		case "requestReceivedTimestamp":
			var at string
			if at, err = fresh(key, value); err == nil && at != "" {
				e.Received, err = time.Parse(time.RFC3339Nano, at)
			}
		case "annotations":
			err = e.annotations(p, value)
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case !s.end():
		return errJSON
	case e.kind == "EventList" && e.items != nil:
		return nil
	case e.kind != "" && e.kind != "Event", e.apiVersion != "" && e.apiVersion != "audit.k8s.io/v1", e.Level == "" || e.stage == "" || e.Verb == "":
		return errKind
	}
	if err := e.reference(p, ref); err != nil {
		return err
	}
	if e.User, err = p.user(who); err != nil {
		return err
	}
	other, err := p.user(impersonated)
	if other != nil {
		e.User, e.By = other, e.User
	}
	return err
}

func (e *event) authentication(p *parser, value []byte) error {
	if string(value) == "null" {
		return nil
	}
	s := scanner{text: value}
	return wrong("authenticationMetadata", s.object(func(key string, value []byte) (err error) {
		if key == "impersonationConstraint" {
			e.Constraint, err = p.text(key, value)
		}
		return err
	}))
}

// body is what was recorded of one.
func body(value []byte) []byte {
	if string(value) == "null" {
		return nil
	}
	return value
}

func (e *event) status(value []byte) error {
	if string(value) == "null" {
		return nil
	}
	s := scanner{text: value}
	return wrong("responseStatus", s.object(func(key string, value []byte) (err error) {
		if key == "code" && string(value) != "null" {
			e.Code, err = strconv.Atoi(string(value))
		}
		return err
	}))
}

func (e *event) annotations(p *parser, value []byte) error {
	if string(value) == "null" {
		return nil
	}
	e.Annotations = value
	s := scanner{text: value}
	return wrong("annotations", s.object(func(key string, value []byte) (err error) {
		switch key {
		case decisionKey:
			e.Decision, err = p.text(key, value)
		case checksKey:
			e.Checks, err = p.text(key, value)
		}
		return err
	}))
}

// reference is what the request is about. The name of a create is that of its object, which authorizers do not see.
func (e *event) reference(p *parser, value []byte) error {
	if value == nil || string(value) == "null" {
		return nil
	}
	s := scanner{text: value}
	err := s.object(func(key string, value []byte) (err error) {
		switch key {
		case "resource":
			e.Resource, err = p.text(key, value)
		case "namespace":
			e.Namespace, err = p.text(key, value)
		case "name":
			e.Name, err = fresh(key, value)
		case "apiGroup":
			e.Group, err = p.text(key, value)
		case "apiVersion":
			e.Version, err = p.text(key, value)
		case "subresource":
			e.Subresource, err = p.text(key, value)
		}
		return err
	})
	if e.Verb == "create" && e.Subresource == "" {
		e.Created, e.Name = e.Name, ""
	}
	return wrong("objectRef", err)
}

// user reads a user; nil if there is none, or one without a name and groups.
func (p *parser) user(value []byte) (*user.DefaultInfo, error) {
	if value == nil || string(value) == "null" {
		return nil, nil
	}
	if known, ok := p.users[string(value)]; ok {
		return known, nil
	}
	u := &user.DefaultInfo{}
	s := scanner{text: value}
	err := s.object(func(key string, value []byte) (err error) {
		switch key {
		case "username":
			u.Name, err = fresh(key, value)
		case "uid":
			u.UID, err = fresh(key, value)
		case "groups":
			u.Groups, err = texts(value)
		case "extra":
			err = extra(u, value)
		}
		return err
	})
	if err != nil {
		return nil, wrong("user", err)
	}
	if u.Name == "" && len(u.Groups) == 0 {
		u = nil
	}
	if len(p.users) >= maxRemembered {
		clear(p.users)
	}
	p.users[string(value)] = u
	return u, nil
}

func extra(u *user.DefaultInfo, value []byte) error {
	if string(value) == "null" {
		return nil
	}
	s := scanner{text: value}
	u.Extra = map[string][]string{}
	return s.object(func(key string, value []byte) (err error) {
		u.Extra[key], err = texts(value)
		return err
	})
}

func texts(value []byte) (all []string, err error) {
	if string(value) == "null" {
		return nil, nil
	}
	s := scanner{text: value}
	err = s.list(func(value []byte) error {
		text, err := fresh("", value)
		all = append(all, text)
		return err
	})
	return all, err
}

// text reads a text that comes again.
func (p *parser) text(key string, value []byte) (string, error) {
	if value[0] == '"' && isPlain(value) {
		if known, ok := p.texts[string(value[1:len(value)-1])]; ok {
			return known, nil
		}
	}
	text, err := fresh(key, value)
	if err == nil {
		if len(p.texts) >= maxRemembered {
			clear(p.texts)
		}
		p.texts[text] = text
	}
	return text, err
}

// fresh reads a text.
func fresh(key string, value []byte) (string, error) {
	switch {
	case value[0] == '"':
		return unquote(value)
	case string(value) == "null":
		return "", nil
	}
	return "", fmt.Errorf("%s: want a string", key)
}

func wrong(where string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	return nil
}
