package plane

// ShelfSize bounds the files that are open though nobody reads them.
const ShelfSize = shelfSize
