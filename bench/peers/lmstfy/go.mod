module delayq.test/peers/lmstfy

go 1.26.0
