// The vector index that search asks.
// parameters: dimensions, similarity
// rows:       none
// locks:      schema
CREATE VECTOR INDEX __INDEX__ IF NOT EXISTS FOR (n:__LABEL__) ON n.__VECTOR__
OPTIONS {indexConfig: {`vector.dimensions`: $dimensions, `vector.similarity_function`: $similarity}}
