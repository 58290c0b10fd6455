ALTER TABLE persons1_doublings UPDATE rows = {{rows}} WHERE doubling = {{doubling}}
