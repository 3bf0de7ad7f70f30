package sidecar

import (
	"net"
	"sync"
)

// tracked tells the proof which connections are open.
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
