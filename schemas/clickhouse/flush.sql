-- Parts are whole files when a statement ends; this is sync(2).
SYSTEM SYNC FILE CACHE
