"""What goes on by itself: sessions that end, an office that becomes vacant, brokers that come and go, timers."""
