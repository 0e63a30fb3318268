package faultproxy

import (
	"net"

	"gateway/internal/must"
)

// listen makes the proxy accept connections.
func (p *Proxy) listen(address string) {
	p.t.Helper()
	listener := must.Get(net.Listen("tcp", address))(p.t)
	p.mu.Lock()
	p.listening, p.address = listener, listener.Addr().String()
	p.mu.Unlock()
	go func() { _ = p.server.ServeTLS(gates{listener, p}, "", "") }() // until it is closed
}

// Refuse closes all connections and refuses new ones, as if nobody listened, until Accept.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	listener := p.listening
	p.mu.Unlock()
	_ = listener.Close()
	p.Drop()
}

// Accept is the end of Refuse.
func (p *Proxy) Accept() {
	p.t.Helper()
	p.listen(p.address)
}

// Drop closes all connections.
func (p *Proxy) Drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn := range p.conns {
		_ = conn.Close()
	}
}

// Freeze lets nothing through in either direction until Thaw, and closes nothing.
func (p *Proxy) Freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.thawed = make(chan struct{})
}

// Thaw is the end of Freeze.
func (p *Proxy) Thaw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.thawed:
	default:
		close(p.thawed)
	}
}

func (p *Proxy) wait() {
	p.mu.Lock()
	thawed := p.thawed
	p.mu.Unlock()
	<-thawed
}

// gates are connections that a Freeze holds up.
type gates struct {
	net.Listener
	proxy *Proxy
}

func (g gates) Accept() (net.Conn, error) {
	conn, err := g.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &gate{conn, g.proxy}
	g.proxy.mu.Lock()
	defer g.proxy.mu.Unlock()
	g.proxy.conns[c] = true
	return c, nil
}

type gate struct {
	net.Conn
	proxy *Proxy
}

func (g *gate) Read(b []byte) (int, error) {
	n, err := g.Conn.Read(b)
	g.proxy.wait()
	return n, err
}

func (g *gate) Write(b []byte) (int, error) {
	g.proxy.wait()
	return g.Conn.Write(b)
}

func (g *gate) Close() error {
	go func() { // Drop closes with the lock held
		g.proxy.mu.Lock()
		defer g.proxy.mu.Unlock()
		delete(g.proxy.conns, g)
	}()
	return g.Conn.Close()
}
