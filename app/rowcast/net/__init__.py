"""Floor 1: sockets that listen, and TLS on them; what is spoken over them is others' business."""
