UPDATE persons1_doublings SET "rows" = {{rows}} WHERE doubling = {{doubling}}
