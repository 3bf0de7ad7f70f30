package sidecar

import (
	"errors"
	"net"
	"sync"
)

// tracked reports open connections to the proof.
type tracked struct {
	net.Listener
	proof *proof
}

// Accept implements net.Listener.
func (t tracked) Accept() (net.Conn, error) {
	conn, err := t.Listener.Accept()
	if err != nil {
		return nil, err
	}
	name := conn.RemoteAddr().String()
	t.proof.opened(name)
	return &trackedConn{Conn: conn, closed: func() { t.proof.closed(name) }}, nil
}

type trackedConn struct {
	net.Conn
	once   sync.Once
	closed func()
}

// Close implements net.Conn. The proof ends before the address can be used again.
func (c *trackedConn) Close() error {
	c.once.Do(c.closed)
	return c.Conn.Close()
}

// joined accepts what comes to either of two listeners.
type joined struct {
	net.Listener
	other    net.Listener
	accepted chan accepted
	done     chan struct{}
	once     sync.Once
}

type accepted struct {
	conn net.Conn
	err  error
}

func join(a, b net.Listener) *joined {
	j := &joined{Listener: a, other: b, accepted: make(chan accepted), done: make(chan struct{})}
	for _, l := range []net.Listener{a, b} {
		go func() {
			for {
				conn, err := l.Accept()
				select {
				case j.accepted <- accepted{conn, err}:
				case <-j.done:
					if err == nil {
						_ = conn.Close()
					}
					return
				}
			}
		}()
	}
	return j
}

// Accept implements net.Listener.
func (j *joined) Accept() (net.Conn, error) {
	select {
	case a := <-j.accepted:
		return a.conn, a.err
	case <-j.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (j *joined) Close() error {
	var err error
	j.once.Do(func() {
		close(j.done)
		err = errors.Join(j.Listener.Close(), j.other.Close())
	})
	return err
}
