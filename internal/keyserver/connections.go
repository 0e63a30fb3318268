package keyserver

import (
	"net"
	"sync"
)

// maxConnections is the most connections, and maxAddressConnections the most of one address. Others are closed.
const maxConnections, maxAddressConnections = 2 * maxStreams, 128

// bounded is a listener that bounds how many connections there are.
type bounded struct {
	net.Listener

	mu        sync.Mutex
	all       int
	byAddress map[string]int
}

func bound(listener net.Listener) *bounded {
	return &bounded{Listener: listener, byAddress: map[string]int{}}
}

// Accept returns the next connection that is not too many.
func (b *bounded) Accept() (net.Conn, error) {
	for {
		connection, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		address, _, _ := net.SplitHostPort(connection.RemoteAddr().String())
		if b.take(address) {
			return &counted{Conn: connection, release: sync.OnceFunc(func() { b.release(address) })}, nil
		}
		_ = connection.Close()
	}
}

func (b *bounded) take(address string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.all >= maxConnections || b.byAddress[address] >= maxAddressConnections {
		return false
	}
	b.all++
	b.byAddress[address]++
	return true
}

func (b *bounded) release(address string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all--
	if b.byAddress[address]--; b.byAddress[address] == 0 {
		delete(b.byAddress, address)
	}
}

// counted is a connection that is counted until it is closed.
type counted struct {
	net.Conn
	release func()
}

// Close closes the connection.
func (c *counted) Close() error {
	c.release()
	return c.Conn.Close()
}
