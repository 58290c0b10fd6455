-- From here on no doubling counts, so that a removal that is cut short is finished by the next build.
DELETE FROM persons1_doublings
