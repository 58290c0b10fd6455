KILL {{session}}
