"""The ellipsoidal SVM of a stream."""
