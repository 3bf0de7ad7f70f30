// Package browser tries the access explorer in a real browser (EX-5): every screen on a seeded server, what the page
// shows against what the commands say, and what attackers and bad days do to it. It takes the screenshots of the guide.
//
// It is a module of its own, so that the browser's protocol (chromedp) stays out of the product.
package browser
