"""The ellipsoidal support vector machine."""
